"""Layers and their stacks, snapshots, forks, disk use and pruning.

Rows name layers. Write the directory first and then the row; remove the row first and then the
directory.
"""
