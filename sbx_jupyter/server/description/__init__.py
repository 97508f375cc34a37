"""The description of the routes by OpenAPI, made from what the handlers declare."""
