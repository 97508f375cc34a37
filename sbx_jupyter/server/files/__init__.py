"""Routes for the files of a sandbox.

One module for each: ``content``, ``listing``, ``compose`` and ``archive``. ``routes.py`` of the
server imports the handlers; ``packing.py``, ``entries.py`` and ``snapshots.py`` are their tools,
which keep a folder or file of any size in bounded memory.
"""
