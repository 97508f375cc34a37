"""The stock root file system of sandboxes: what of the host is shown, and which files are made anew.

It is an allow-list: what is not named in ``rootfs.py`` is not visible inside.
"""
