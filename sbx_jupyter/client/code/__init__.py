"""Runs code in the contexts of a sandbox's interpreter (interface 5).

``runner.py`` does the work, and ``sync_runner.py`` offers the same to blocking code and changes
with it. What a run gives is in ``execution.py``, under the names of the public clients: those are
part of the public face and do not change.
"""
