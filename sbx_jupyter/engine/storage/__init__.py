"""The disk behind sandboxes: layers and their stacks, snapshots, disk use and pruning.

Layers are named by rows: write the directory first, then the row; remove the row first, then the
directory.
"""
