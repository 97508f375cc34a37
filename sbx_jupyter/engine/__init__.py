"""Runs sandboxes on this machine: their life cycle, files and processes. No HTTP here."""
