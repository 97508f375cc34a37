"""Commands and terminals of a sandbox, and their output.

``commands.py`` and ``pty.py`` do the work; ``sync_commands.py`` offers it to blocking code and
changes with them.
"""
