"""Builds templates, and finds and packs the files for it (interface 7.1).

``templates.py`` asks for builds, and ``build_context.py`` packs the files: other packages import
these two. ``ignore.py`` follows Docker's rules, not our own.
"""
