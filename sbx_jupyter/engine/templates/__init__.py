"""Templates and their builds: catalog, tags, requests and the steps that run in sandboxes.

``service.py`` is the entry for handlers; ``build.py`` is one build from its base to its last
layer.
"""
