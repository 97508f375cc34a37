"""Cells that run in a sandbox: ``%%sbx``, its options, its footer and what it measures.

``cell`` is the magic; ``running`` runs a cell in one sandbox, ``grid`` in several side by side.
Only ``magics`` imports from here: the magic, and what its completion and ``%sbx`` share with it.
"""
