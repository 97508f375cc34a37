"""Counts what the processes of a sandbox hold without a name: files, memory files and sockets.

For limits that no quota and no control group holds. It runs in a process that the zygote forked,
which may look into the sandbox's processes. Everything read there may be made up to deceive: files
are told apart by what the kernel says of their device and number, never by their names.
"""
