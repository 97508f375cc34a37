"""Files of a sandbox, and watches on its directories.

``files.py`` does the work; ``sync_files.py`` offers the same to blocking code and changes with it.
"""
