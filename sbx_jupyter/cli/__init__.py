"""The command line: ``jupyter sbx ...``.

One module per group of commands; each exports ``add_to``. Modules import what a command needs
when it runs, so that ``--help`` stays fast.
"""
