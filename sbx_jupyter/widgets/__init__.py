"""Notebook widgets that show a sandbox: its files, a terminal, its use of resources.

People import the names below; the modules behind them may move. ``base.py`` connects each to its
front end by a comm, and ``requests.py`` lists what a front end may ask for.
"""

from sbx_jupyter.widgets.files import FileBrowser
from sbx_jupyter.widgets.metrics import MetricsChart
from sbx_jupyter.widgets.sandbox_view import SandboxView
from sbx_jupyter.widgets.terminal import Terminal

__all__ = ["FileBrowser", "MetricsChart", "SandboxView", "Terminal"]
