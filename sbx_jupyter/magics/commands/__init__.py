"""The subcommands of ``%sbx``: ``registry`` lists them all, ``command`` says what each is."""
