"""The full network of a sandbox: a tap interface with a packet filter, and slirp4netns.

Start at ``connections.py``. What a sandbox may reach is decided by ``engine/egress``.
"""
