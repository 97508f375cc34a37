"""Watching sandboxes and the engine: limits that the kernel does not hold, samples, meters and gauges.

``checkpoints.py`` names the steps at which fault tests stop the engine; keep its names in use.
"""
