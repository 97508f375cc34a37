"""What the engine keeps on disk: the SQLite store, rows, migrations, keys, history and logs.

Only ``store.py`` speaks SQL. A change of a row needs a step in ``migrations.py``.
"""
