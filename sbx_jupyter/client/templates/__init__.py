"""Builds templates, and finds and packs the files for it (interface 7.1).

``ignore.py`` follows Docker's rules, not our own.
"""
