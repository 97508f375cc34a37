"""The platform API: one module per resource (interface 1).

Handlers parse requests, call ``engine`` and format its results. A new endpoint needs the decorator
``operation`` from ``operation_spec.py`` and a route in ``server.py``.
"""
