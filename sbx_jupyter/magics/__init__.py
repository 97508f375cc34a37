"""The magics ``%sbx`` and ``%%sbx``: sandboxes from the cells of a notebook."""
