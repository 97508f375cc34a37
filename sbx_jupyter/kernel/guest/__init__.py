"""Run inside a sandbox: start kernels and join the channels of each to one WebSocket.

``program`` is where it begins. Only this folder's files are sent into the sandbox: they import each
other, the standard library, and of what the sandbox has ``zmq``, ``tornado`` and ``ipykernel``.
"""
