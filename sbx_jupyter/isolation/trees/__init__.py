"""Copying, merging, mirroring and unpacking directory trees, in processes the zygote forks.

Standard library only. The trees were written by hostile programs: never follow their links.
"""
