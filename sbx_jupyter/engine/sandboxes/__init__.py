"""The life cycle of sandboxes: admission, creation, pause, resume, expiry, end and recovery.

States and transitions are a table in ``lifecycle.py``; ``slots.py`` holds one slot per sandbox,
whose lock every change acquires.
"""
