"""The runtime API of a sandbox: Connect RPC services and plain HTTP routes (interface 3 and 4).

``routes.py`` lists them. Every handler derives from ``runtime_handler.py``, which checks the token.
"""
