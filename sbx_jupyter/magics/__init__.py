"""The magics ``%sbx`` and ``%%sbx``: sandboxes from the cells of a notebook.

``extension.py`` is what ``%load_ext sbx_jupyter`` loads; ``line.py`` and ``cells/cell.py`` are the
two magics, and ``session.py`` is what they know of one notebook. Other packages import nothing
from here; these modules reach sandboxes through ``client`` only.
"""
