"""The HTTP server of the engine: platform API, gateway and runtime API on one address.

``app.py`` is the application, ``server.py`` lists the routes, and ``gateway/dispatch.py`` sends
each request to ``platform/``, ``runtime/`` or a port. Only ``cli`` imports from here. Handlers
decide about HTTP; what is done to a sandbox is decided in ``engine``.
"""
