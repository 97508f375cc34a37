"""Builds of templates: each runs its steps one by one in sandboxes and keeps a layer for each.

``builder.py`` queues and ends builds; ``build.py`` is one build from its base to its last layer.
Only ``service.py`` of the templates imports these; ``build_log.py`` is for everybody in the engine.
"""
