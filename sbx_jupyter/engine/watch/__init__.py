"""Monitoring: limits that the kernel does not enforce, readings, meters and gauges.

``checkpoints.py`` names the points at which fault tests stop the engine; keep its names in use.
"""
