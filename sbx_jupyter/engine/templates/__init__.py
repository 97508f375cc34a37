"""Templates: catalogue, tags, listing, uploads, and their builds and container images.

``service.py`` is the entry for handlers.
"""
