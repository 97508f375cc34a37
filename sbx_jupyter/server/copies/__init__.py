"""Copies between notebook files and sandboxes, made by the server."""
