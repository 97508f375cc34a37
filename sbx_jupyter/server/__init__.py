"""The Jupyter server extension: the browser's only way to sandboxes."""
