"""Draws values that came out of a sandbox as HTML that cannot act in the page."""
