"""The subcommands of ``%sbx``: ``registry`` lists them all, ``command`` says what each is.

The other modules have one group of subcommands each, in a dict that ``registry`` joins. A new
subcommand goes there, and completion and help follow. Only ``line`` and ``completion`` import from
here.
"""
