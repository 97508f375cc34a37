"""The states of JupyterLab's views under axe-core, and what people do without a pointer."""
