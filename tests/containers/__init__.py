"""The image of ``recipes/container``: built as it is, and run in the ways that its page names."""
