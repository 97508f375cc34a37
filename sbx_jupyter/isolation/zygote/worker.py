"""Operations on files, whatever ids own them, in a process that the zygote forked for each.

It ends with the zygote, and so with the engine: nothing goes on writing to what the next engine
takes for its own. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbx_jupyter.agent import wire
from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.agent.workers import describe
from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
from sbx_jupyter.isolation.trees.merge import Merge
from sbx_jupyter.isolation.trees.mirror import Mirror
from sbx_jupyter.isolation.zygote.progress import Cancelled, Progress

if TYPE_CHECKING:
    import socket

OPERATIONS: Final = frozenset(
    {
        *("archive", "compare", "copy", "measure", "merge", "move"),
        *("open_files", "remove", "unpack", "use_volume"),
    }
)

_LOOK_TIMEOUT: Final = 25


def work(
    control: socket.socket, body: dict[str, Any], fds: list[int], *, kind: str, parent: int
) -> NoReturn:
    """Do what a request asks and answer it; ``parent`` is the zygote's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    given: list[int] = []
    signal.alarm(body.get("seconds", 0))  # the engine waits no longer
    try:
        _allow_many_layers()
        answer: dict[str, Any] = {"id": body["id"], "ok": _do(body, fds, given, kind)}
    except Cancelled:
        answer = _failure(body, "canceled", "the copy was cancelled")
    except SbxError as error:
        answer = {"id": body["id"], "error": describe(error)}
    except OSError as error:
        # The text may reach a client, to which paths of the machine say nothing.
        print(f"sbx-jupyter: {body['op']}: {error}", file=sys.stderr, flush=True)
        answer = _failure(body, "internal", error.strerror or str(error))
    except Exception as error:  # answer any failure, since the engine waits for an answer
        answer = _failure(body, "internal", getattr(error, "stderr", None) or str(error))
    with contextlib.suppress(OSError):  # the engine is gone
        try:
            wire.send(control, answer, given)
        except wire.WireError as error:
            wire.send(control, _failure(body, "resource_exhausted", f"the answer is {error}"))
    os._exit(0)


def _failure(body: dict[str, Any], code: str, said: str) -> dict[str, Any]:
    return {"id": body["id"], "error": {"code": code, "message": said[-2000:]}}


def _allow_many_layers() -> None:
    """A merge of many layers has a descriptor for each, and at least two on the way down."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _do(body: dict[str, Any], fds: list[int], given: list[int], kind: str) -> dict[str, Any]:
    """Do what a request asks and give the answer; descriptors for the engine go to ``given``."""
    match body["op"]:
        case "archive" | "compare":
            return _compare(body["op"], body["stacks"], fds)
        case "copy":
            Mirror(
                body["source"],
                body["target"],
                since_ns=body["since_ns"],
                still=body["still"],
                copied=CopiedDirectories(fds[0]) if fds else None,
                progress=Progress(fds[1]) if len(fds) > 1 else None,
            ).run()
        case "merge":
            Merge(body["sources"], body["target"]).run()
        case "unpack":
            # Imported here, so that not every sandbox carries these modules.
            from sbx_jupyter.isolation.trees.unpack import unpack

            unpack(body["target"], fds[0], body["names"], users=kind, owner=body["owner"])
        case "move":
            Path(body["path"]).rename(body["target"])
        case "remove":
            # Here and not in another program, which would outlive the engine.
            remove(body["path"], opens_closed=True)
        case "measure":
            return {"sizes": [_measure(path) for path in body["paths"]]}
        case "open_files":
            return _open_files(body["pid"], body["kept"])
        case "use_volume":
            return _use_volume(body["root"], body["call"], given)
        case operation:
            raise ValueError(f"unknown operation {operation!r}")
    return {}


def _compare(operation: str, stacks: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    from sbx_jupyter.isolation.stored.comparison import Comparison
    from sbx_jupyter.isolation.stored.merged_tree import Layer
    from sbx_jupyter.isolation.stored.trees import write_changes

    ours, theirs, common = (
        tuple(Layer(Path(root), prefix) for root, prefix in stacks[name])
        for name in ("ours", "theirs", "common")
    )
    comparison = Comparison(ours, theirs, common, stacks["sandbox_id"])
    if operation == "archive":
        write_changes(comparison, fds[0])
        return {}
    found, is_cut = comparison.first_changes()
    return {"changes": [each._asdict() for each in found], "truncated": is_cut}


def _use_volume(root: str, call: dict[str, Any], given: list[int]) -> dict[str, Any]:
    from sbx_jupyter.isolation.stored import volume_calls
    from sbx_jupyter.isolation.stored.volume_content import VolumeContent

    content = VolumeContent(Path(root), real_ids=True, record=volume_calls.as_text)
    return volume_calls.run(content, call, given)


def _open_files(pid: int, kept: bool) -> dict[str, Any]:
    """Count what a sandbox's processes hold; ``pid`` is that of its ``Cage``.

    The process tree is walked here at once, before other processes can reuse the process ids.
    """
    from sbx_jupyter.isolation.confined import descendants
    from sbx_jupyter.isolation.resource_use import shared_memory
    from sbx_jupyter.isolation.resource_use.open_files import OpenFilesReader

    signal.alarm(_LOOK_TIMEOUT)  # a file may be on a disk that does not answer
    members = descendants.members(pid, kept=kept)
    reader = OpenFilesReader(members)
    if kept:  # it has the namespaces of the machine
        return reader.run({}, 0, set()).to_json()
    every = [pid, *members]
    in_files, ignored = shared_memory.read_files(every)
    shared = in_files + shared_memory.read_segments(every)
    return reader.run(shared_memory.read_sockets(every), shared, ignored).to_json()


def _end_with_parent() -> None:
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _measure(path: str) -> list[int] | None:
    """Bytes on the disk and inodes of a tree, hard links once; ``None`` when it is not there.

    Entries that vanish meanwhile, or that are closed to their owner, are no failure.
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
