"""Runs in the engine's place, with its user, its descriptors and its filter, and tries to get out.

Prints a JSON object: what was tried, and how it ended.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.privileged import account, messages, view
from sbx_jupyter.isolation.privileged.connection import HelperConnection
from sbx_jupyter.isolation.privileged.supervisor import Supervisor, start_supervisor
from tests.isolation.privileged.conftest import options_of

FOUND: dict[str, str] = {}


def attempt(name: str, action: Callable[[], Any]) -> None:
    try:
        FOUND[name] = f"done: {action()!r}"
    except (OSError, SbxError) as error:
        FOUND[name] = type(error).__name__


def main(data_dir: Path, neighbour: Path, owner: int) -> None:
    supervisor = start_supervisor(msgspec.json.encode(options_of(data_dir)).decode())
    view.open_way([data_dir, *map(Path, (sys.prefix, sys.base_prefix, *sys.path))])
    account.become(owner)
    asyncio.run(attack(data_dir, neighbour, supervisor))
    print(json.dumps(FOUND))


async def attack(data_dir: Path, neighbour: Path, supervisor: Supervisor) -> None:
    connection = HelperConnection(supervisor)
    await connection.call(messages.Describe())
    status = Path("/proc/self/status").read_text().splitlines()
    FOUND.update(dict(line.split(":\t") for line in status if "\t" in line))
    attempt("read /etc/shadow", Path("/etc/shadow").read_text)
    attempt("read a neighbour", (neighbour / "engine.db").read_text)
    attempt("mount", lambda: syscalls.mount("x", "/mnt", "tmpfs"))
    attempt("make a namespace", lambda: syscalls.unshare(syscalls.CLONE_NEWUSER))
    attempt("become root", lambda: os.setuid(0))
    attempt("run a program", lambda: os.execv("/bin/true", ["true"]))
    attempt("trace init", lambda: check(ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0)))
    attempt("signal init", lambda: os.kill(1, 0))
    attempt("move the layers", lambda: (data_dir / "layers").rename(data_dir / "mine"))
    attempt("replace the cages", lambda: (data_dir / "cages").rmdir())
    attempt("list the cages", lambda: os.listdir(data_dir / "cages"))
    attempt("make a layer", lambda: (data_dir / "layers" / "mine").mkdir())
    attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
    attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    folder = os.open(data_dir / "run", os.O_RDONLY)
    (data_dir / "run" / f"sha256-{'0' * 64}").symlink_to("/etc/shadow")
    await ask(connection, "unpack a link", unpack(f"sha256-{'0' * 64}"), [folder])
    own_file = [os.open("/etc/hostname", os.O_RDONLY)]
    await ask(connection, "unpack a file", unpack(f"sha256-{'0' * 64}"), own_file)
    await ask(connection, "remove /etc", messages.Remove(tree="layers/../../../../etc"))
    volume = "00000000-0000-0000-0000-000000000001"
    await ask(connection, "volume above", messages.MakeVolume(volume_id="../../x", limit=0))
    attempt("plant in quarantine", lambda: (data_dir / "quarantine" / "mine").symlink_to("/etc"))
    await ask(connection, "make a volume", messages.MakeVolume(volume_id=volume, limit=0))
    outside = messages.OpenRead(volume_id=volume, path="/../../../../etc/shadow")
    await ask(connection, "read through a volume", outside)
    ended = messages.EndProcess(sandbox_id="i" + "0" * 20, pid=1)
    await ask(connection, "end init", ended)
    tap = messages.ConnectTap(sandbox_id="i" + "0" * 20, ranges=[(0, 2**32 - 1)], resolves=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as of_machine:
        await ask(connection, "connect the machine", tap, [of_machine.fileno()])
    await connection.aclose(messages.Stop())


def unpack(name: str) -> messages.Unpack:
    target = "layers/00000000-0000-0000-0000-000000000001"
    return messages.Unpack(target=target, names=[name])


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return result


async def ask(
    connection: HelperConnection, name: str, message: messages.Message, fds: list[int] | None = None
) -> None:
    try:
        await connection.call(message, fds or [])
        FOUND[name] = "done"
    except (OSError, SbxError) as error:
        FOUND[name] = type(error).__name__


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
