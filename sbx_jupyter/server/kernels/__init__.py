"""Kernels in sandboxes: where each runs, and specifications whose kernels do."""
