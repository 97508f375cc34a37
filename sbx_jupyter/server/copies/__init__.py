"""Copies between notebook files and sandboxes, made by the server.

``handler.py`` has the route, ``copying.py`` plans and makes a copy, and ``places.py`` says what a
copy needs of either end. ``routes.py`` of the server imports the handler, and nothing else.
"""
