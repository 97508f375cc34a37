"""The Jupyter server extension: the routes through which the browser reaches sandboxes.

``extension.py`` has the settings and starts what is needed, ``routes.py`` lists the routes, and
each module or folder serves some of them. It reaches sandboxes through ``client`` and the
connections in ``deployments``; no key and no token of a sandbox is sent to the browser.
"""
