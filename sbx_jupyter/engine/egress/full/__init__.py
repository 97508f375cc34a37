"""The whole network for a sandbox: a tap interface behind a packet filter, and slirp4netns.

Start at ``network.py``. Only ``egress/control.py`` uses this package.
"""
