"""The trees of a data directory: layers, writable layers and volumes, made, read and changed.

Start at ``trees.py``. The files belong to the ids of sandboxes, and hostile code wrote them.
"""
