"""Outbound connections of sandboxes: rules, proxy and network (interface 8)."""
