"""Sandboxes on this machine: their life, their files and processes; no HTTP."""
