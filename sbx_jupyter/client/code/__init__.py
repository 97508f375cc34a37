"""Runs code in the contexts of a sandbox's interpreter (interface 5)."""
