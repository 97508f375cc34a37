"""Jupyter's tools with a sandboxed kernel, and floods of output: ``make test-notebook-tools``."""
