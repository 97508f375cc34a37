"""What the engine keeps on the disk: the SQLite store, its rows and migrations, keys, history and logs.

Only ``store.py`` speaks SQL. A change of a row needs a step in ``migrations.py``.
"""
