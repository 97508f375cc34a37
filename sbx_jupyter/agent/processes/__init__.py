"""Starts, signals, supervises and counts the sandbox's programs; ``spawn.py`` has the operations.

What runs between a fork and an ``exec`` shares this process's memory or has little of its own:
change ``call_list.py`` and ``launch.py`` only with ``tests/agent/processes/test_launch.py``.
"""
