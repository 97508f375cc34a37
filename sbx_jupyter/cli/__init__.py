"""The command line: ``jupyter sbx ...``.

One module per group of commands; its ``add_to`` adds them to the parser. Modules import what a
command needs when it runs, so that ``--help`` stays fast.
"""
