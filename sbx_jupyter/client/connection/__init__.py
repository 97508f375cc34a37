"""Which engine a client talks to, with which key and which certificates.

``config.py`` puts it together; ``bundled.py`` starts an engine where none runs. Keys come from
files and from the environment: they never go into a log, a URL or the arguments of a process.
"""
