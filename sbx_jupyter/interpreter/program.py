"""Starts the interpreter: listens first, so that no request is refused, then forks and serves."""

from __future__ import annotations

import argparse
import os
import socket
import sys


def main() -> None:
    """Serve until the kernel zygote ends or this process is killed.

    The socket listens before large modules are imported: a request that comes early waits in the
    backlog. Then the kernel zygote is forked, while this process has one thread and no event loop,
    and loads what kernels need beside the server.
    """
    parser = argparse.ArgumentParser(prog="interpreter")
    parser.add_argument("--port", type=int, default=49999)
    parser.add_argument("--envs", help="a file with the variables of the sandbox, as JSON")
    arguments = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=128)
    print(f"listening on {listener.getsockname()[1]}", flush=True)

    from sbx_jupyter.interpreter import kernel_zygote

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        listener.close()
        ours.close()
        kernel_zygote.preload()
        kernel_zygote.run(theirs)
    theirs.close()

    from sbx_jupyter.interpreter.server import serve

    sys.exit(serve(listener, ours, arguments.envs))
