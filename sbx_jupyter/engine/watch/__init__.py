"""Watching sandboxes and the engine: limits the kernel does not hold, samples and meters.

``checkpoints.py`` names the steps at which fault tests stop the engine; keep its names in use.
"""
