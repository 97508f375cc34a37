"""What a process that the zygote forked does to files, whatever ids own them, and then answers.

It ends with the zygote, and so with the engine: nothing goes on writing to what the next engine
takes for its own. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbx_jupyter.agent import wire
from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.trees.merge import Merge
from sbx_jupyter.isolation.trees.mirror import Mirror
from sbx_jupyter.isolation.zygote.progress import Cancelled, Progress

if TYPE_CHECKING:
    import socket

OPERATIONS: Final = frozenset({"copy", "measure", "merge", "open_files", "remove", "unpack"})

_LOOK_TIMEOUT: Final = 25


def work(
    control: socket.socket, body: dict[str, Any], fds: list[int], *, kind: str, parent: int
) -> NoReturn:
    """Do what a request asks and answer it; ``parent`` is the zygote's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    try:
        _allow_many_layers()
        answer: dict[str, Any] = {"id": body["id"], "ok": _do(body, fds, kind)}
    except Cancelled:
        answer = _failure(body, "canceled", "the copy was cancelled")
    except Exception as error:  # answer any failure, since the engine waits for an answer
        answer = _failure(body, "internal", getattr(error, "stderr", None) or str(error))
    with contextlib.suppress(OSError):  # the engine is gone
        wire.send(control, answer)
    os._exit(0)


def _failure(body: dict[str, Any], code: str, said: str) -> dict[str, Any]:
    return {"id": body["id"], "error": {"code": code, "message": said[-2000:]}}


def _allow_many_layers() -> None:
    """A merge of many layers has a descriptor for each, and at least two on the way down."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _do(body: dict[str, Any], fds: list[int], kind: str) -> dict[str, Any]:
    progress = Progress(fds[0]) if fds and body["op"] != "unpack" else None
    match body["op"]:
        case "copy":
            Mirror(
                body["source"],
                body["target"],
                since_ns=body["since_ns"],
                still=body["still"],
                progress=progress,
            ).run()
        case "merge":
            Merge(body["sources"], body["target"], progress=progress).run()
        case "unpack":
            # What that needs is not for every sandbox to carry.
            from sbx_jupyter.isolation.trees.unpack import unpack

            unpack(body["target"], fds[0], body["names"], users=kind, owner=body["owner"])
        case "remove":
            # Here and not in another program, which would outlive the engine.
            remove(body["path"], opens_closed=True)
        case "measure":
            return {"sizes": [_measure(path) for path in body["paths"]]}
        case "open_files":
            return _open_files(body["pid"], body["kept"])
        case operation:
            raise ValueError(f"unknown operation {operation!r}")
    return {}


def _open_files(pid: int, kept: bool) -> dict[str, Any]:
    """Count what a sandbox's processes hold; ``pid`` is that of its ``Cage``.

    The process tree is walked here at once, before other processes can reuse the process ids.
    """
    from sbx_jupyter.isolation.census import shared_memory
    from sbx_jupyter.isolation.census.census import Census
    from sbx_jupyter.isolation.confined import descendants

    signal.alarm(_LOOK_TIMEOUT)  # a file may be on a disk that does not answer
    members = descendants.members(pid, kept=kept)
    census = Census(members)
    if kept:  # it has the namespaces of the machine
        return census.run({}, 0, set()).to_json()
    every = [pid, *members]
    in_files, ignored = shared_memory.read_files(every)
    shared = in_files + shared_memory.read_segments(every)
    return census.run(shared_memory.read_sockets(every), shared, ignored).to_json()


def _end_with_parent() -> None:
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _measure(path: str) -> list[int] | None:
    """Bytes on the disk and inodes of a tree, hard links once; ``None`` when it is not there.

    What vanishes while it is measured, or is closed to its owner, is no failure.
    """
    found: list[int] = []
    for what in ("-B1", "--inodes"):
        # This process has one thread, so a function may run before the program.
        done = subprocess.run(
            ["du", "-sx", what, "--", path],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=_end_with_parent,
        )
        words = done.stdout.split(None, 1)
        if not words:
            return None
        found.append(int(words[0]))
    return found
