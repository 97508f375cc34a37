"""One running sandbox: its agent channel, files, processes, terminals, watches and ports.

``sandbox.py`` is the entry. Nothing here knows the store or the states of a sandbox, which are in
``sandboxes``.
"""
