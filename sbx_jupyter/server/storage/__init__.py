"""The routes about what is stored: volumes, secrets, snapshots, templates and builds.

One module for each group of routes; ``routes.py`` of the server imports the handlers, and nothing
else does. The token of a volume and the value of a secret stay in the server.
"""
