"""Disk use, work in progress, and what snapshots hold, through a real engine."""
