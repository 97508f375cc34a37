"""The zygote: the process of which every sandbox is a fork, its worker processes and its client.

``zygote.py`` is the program, ``client.py`` the engine's side. What it imports stays in every
sandbox's memory: keep imports few.
"""
