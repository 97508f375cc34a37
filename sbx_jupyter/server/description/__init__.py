"""The description of the routes by OpenAPI, made from what the handlers declare.

Handlers import ``operations.py`` to declare a route; ``openapi.py`` makes the document of these,
with the schemas of the records. ``python -m sbx_jupyter.server.description`` prints it.
"""
