"""What a sandbox changed, read from its layers without mounting them.

Start at ``sandbox_diff.py``. Everything here only reads.
"""
