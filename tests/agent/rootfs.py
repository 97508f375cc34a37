"""A small root file system and namespaces, in which the real agent runs as PID 1."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import traceback
from pathlib import Path
from typing import Any, NoReturn

from sbx_jupyter.agent import main

PASSWD = """root:x:0:0:root:/root:/bin/bash
user:x:1000:1000:,,,:/home/user:/bin/bash
guest:x:1001:1001::/home/guest:/bin/sh
homeless:x:1002:1002::/nonexistent:/bin/sh
"""
GROUP = """root:x:0:
user:x:1000:
guest:x:1001:
docs:x:2000:user,guest
tools:x:2001:user
"""

_NEW_NAMESPACES = 0x20000 | 0x20000000 | 0x40000000 | 0x04000000 | 0x08000000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_IFF_UP, _SET_FLAGS = 1, 0x8914

_libc = ctypes.CDLL(None, use_errno=True)


def build(root: Path) -> None:
    """Make the directories and tables that a sandbox needs."""
    for name in ("proc", "dev/pts", "dev/shm", "etc", "run", "tmp", "root", "home/user", "srv"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "root").chmod(0o700)
    os.chown(root / "home/user", 1000, 1000)
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text(GROUP)
    for name in ("usr", "bin", "sbin", "lib", "lib64"):
        host = Path("/") / name
        if host.is_symlink():
            (root / name).symlink_to(host.readlink())
        elif host.exists():
            (root / name).mkdir()


def launch(root: Path, listener: socket.socket, setup: dict[str, Any]) -> int:
    """Fork the agent into its own namespaces; the pid of the process that waits for it."""
    pid = os.fork()
    if pid == 0:
        try:
            _check(_libc.unshare(_NEW_NAMESPACES))
            inner = os.fork()
            if inner == 0:
                _become_agent(root, listener, setup)
            listener.close()
            os.waitpid(inner, 0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(0)
    return pid


def agents_of(pid: int) -> list[int]:
    """The pid of the agent that ``launch`` started, from the one that it gave; none if it ended."""
    return [int(agent) for agent in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill(pid: int) -> None:
    """Kill the agent that ``launch`` started, and with it all that runs in its namespaces."""
    for agent in agents_of(pid):
        os.kill(agent, signal.SIGKILL)
    os.waitpid(pid, 0)


def _become_agent(root: Path, listener: socket.socket, setup: dict[str, Any]) -> NoReturn:
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount(str(root), str(root), None, _BIND)
    for name in ("usr", "bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_dir() and not Path("/", name).is_symlink():
            _mount(f"/{name}", f"{root}/{name}", None, _BIND | _REC)
    _mount("proc", f"{root}/proc", "proc", 0)
    _mount("devpts", f"{root}/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
        os.mknod(f"{root}/dev/{name}", 0o20666, os.makedev(1, minor))
    os.mknod(f"{root}/dev/tty", 0o20666, os.makedev(5, 0))
    for name in ("null", "zero", "random", "urandom", "tty"):
        os.chmod(f"{root}/dev/{name}", 0o666)
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")
    os.chroot(root)
    os.chdir("/")
    _raise_loopback()
    main.run(listener.fileno(), setup)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14s", b"lo", _IFF_UP, b"")
        fcntl.ioctl(sock, _SET_FLAGS, request)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind and kind.encode(), flags, data.encode() or None
    )
    _check(result)


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
