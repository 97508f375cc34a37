"""Runs sandboxes on this machine: their life cycle, files and processes. No HTTP here.

``engine.py`` is the entry: handlers of ``service`` reach everything as ``engine.sandboxes``,
``engine.templates``, ``engine.storage`` and the like. Only ``service`` and ``cli`` import from
here; records and errors go out, and a state of a sandbox is changed through ``sandboxes`` alone.
"""
