"""Draws values that came out of a sandbox as HTML that cannot act in the page.

``bundle.py`` takes whole results, ``reports.py`` draws our own objects, and ``text.py`` cleans what
is shown as text. Any package may import these: they import nothing of ours, and take every value
as hostile.
"""
