"""The agent's work on the sandbox's files; each operation is a method of ``Files`` or ``Watches``.

Hostile code wrote the files and changes them meanwhile: open nothing that could wait, follow no
link that was not looked at, and leave what takes long to a worker (``agent/workers.py``).
"""
