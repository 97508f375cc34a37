"""Git in a sandbox: repositories, branches, remotes, their state.

``git.py`` runs the commands, by the names of the public clients, which do not change;
``sync_git.py`` offers the same to blocking code. Both are reached as ``sandbox.git``.
"""
