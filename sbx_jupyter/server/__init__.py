"""The Jupyter server extension: the routes through which the browser reaches sandboxes."""
