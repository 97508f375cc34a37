"""Pages and services of sandboxes below this server's base URL.

``handler.py`` serves them by path and ``host_handler.py`` at host names of their own; ``access.py``
decides who may use which port, and is what the rest of the server imports. The pages are hostile:
``headers.py`` and ``host_headers.py`` are lists of what may pass.
"""
