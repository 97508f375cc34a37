"""The full network of a sandbox: a tap interface with a packet filter, and slirp4netns.

Start at ``network.py``. Only ``egress/control.py`` uses this package.
"""
