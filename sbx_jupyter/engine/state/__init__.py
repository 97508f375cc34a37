"""Keeps the engine's state on disk: the SQLite store, rows, keys, readings, logs and secrets.

Only ``store.py`` and ``migrations.py`` use SQL. A new table, or a field of a row without a default,
needs a step in ``migrations.py``.
"""
