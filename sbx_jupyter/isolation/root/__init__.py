"""The stock root file system: which parts of the host are shown, which files are made new.

It is an allow-list: what is not named in ``rootfs.py`` is not visible inside.
"""
