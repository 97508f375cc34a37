"""The gateway: finds the sandbox and port that a request is for, and forwards it.

Every request starts in ``dispatch.py``. The gateway does not parse bodies.
"""
