"""Copying, merging, mirroring and unpacking of directory trees, for processes that the zygote forks.

Standard library only. The trees were written by hostile programs: never follow their links.
"""
