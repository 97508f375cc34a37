"""Outbound connections of sandboxes: rules, proxy and network (interface 8).

``control.py`` is the entry for ``attachments.py``; ``policy.py`` decides, for the proxy and the
packet filters alike. Nothing else opens a connection for a sandbox.
"""
