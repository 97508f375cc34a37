"""Storage that outlives sandboxes: volumes and what is in them (interface 1.6)."""
