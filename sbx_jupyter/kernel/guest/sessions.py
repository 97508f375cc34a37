"""The process of one kernel, and the process that serves its channels."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .channels import serve
from .processes import die_with_parent, end_with

_FORKED = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
"""The arguments of kernels that need no program of their own."""


def run_session(request: dict[str, Any]) -> int:
    """Start the kernel of a request and serve it; return its exit status."""
    os.setsid()
    folder = Path(request["folder"])
    folder.mkdir(mode=0o700)
    file = folder / "connection.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(request["connection"]))
    kernel = os.fork()
    if kernel == 0:
        end_with(_become_kernel, request, str(file))
    return asyncio.run(serve(request, kernel))


def _become_kernel(request: dict[str, Any], file: str) -> int:
    os.setsid()
    die_with_parent()
    # The output is not for what the kernel prints by itself.
    os.dup2(2, 1)
    os.environ.update(request["envs"])
    with contextlib.suppress(OSError):
        os.chdir(request["cwd"])
    program, *arguments = request["argv"]
    if program or tuple(arguments[: len(_FORKED)]) != _FORKED:
        arguments = [argument.replace("{connection_file}", file) for argument in arguments]
        program = program or sys.executable
        os.execvp(program, [program, *arguments])
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # the same in each fork otherwise
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    app.initialize(["-f", file, *arguments[len(_FORKED) :]])  # pyright: ignore[reportUnknownMemberType] - untyped there
    app.start()
    return 0
