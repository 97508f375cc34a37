"""Kernels in sandboxes: where each runs, and specifications whose kernels do.

``routes.py`` tells pages, and the rest of the server, which sandbox a kernel has; ``variants.py``
writes kernel specifications, and ``variant_routes.py`` has the route for that. What starts the
kernels is the package ``sbx_jupyter.kernel``.
"""
