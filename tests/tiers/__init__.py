"""What sandboxes can do in each tier: ``rows`` is the table, ``test_tiers`` tries it."""
