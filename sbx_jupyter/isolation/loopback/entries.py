"""Sockets that are not connected, and the names that they are bound to."""

from __future__ import annotations

import errno
import os
import random
import select
import socket
import stat
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.loopback.calls import failure
from sbx_jupyter.isolation.loopback.labels import Label, State
from sbx_jupyter.protocol.sockets import TABLE_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.confined.contained_paths import ContainedDirectory
    from sbx_jupyter.isolation.loopback.calls import SocketCall

Key = tuple[int, int] | tuple[str, bytes] | tuple[str, int, int]
"""A port of a family; an abstract name; device and inode of a path."""

_EPHEMERAL: Final = range(32768, 61000)
_TRIES: Final = 1000
_ANY: Final = (bytes(4), bytes(16))
_LOOPBACK_V6: Final = bytes(15) + b"\1"
_MAPPED: Final = bytes(10) + b"\xff\xff"
_MODE: Final = stat.S_IFSOCK | 0o755


@dataclass(eq=False, slots=True)
class Entry:
    """A socket that is not connected: its program has one end of a pair, the keeper ``end``.

    ``end`` hangs up when the last program closes the socket. While connections wait, a byte from
    there makes the socket readable.
    """

    end: socket.socket
    family: int
    cookie: bytes = b""
    keys: list[Key] = field(default_factory=list[Key])
    pin: int = -1
    """A descriptor that keeps the inode number of a path from being given away."""
    path: bytes = b""
    """The address that it is bound to, for Unix sockets."""
    is_listening: bool = False
    is_outside: bool = False
    """The listener is outside the sandbox; connections are sent over ``end`` as descriptors."""
    queue: deque[socket.socket] = field(default_factory=deque[socket.socket])
    waiting: dict[int, SocketCall] = field(default_factory=dict[int, "SocketCall"])
    """Accepts that wait, by thread. A thread waits for one call only."""


def ephemeral_port() -> int:
    """A random port for a client."""
    return random.choice(_EPHEMERAL)


def parse_address(raw: bytes, family: int) -> tuple[bytes, int]:
    """Host and port of an address of the internet. Raises ``OSError``."""
    if struct.unpack_from("H", raw)[0] != family:
        raise failure(errno.EAFNOSUPPORT)
    if len(raw) < (16 if family == socket.AF_INET else 24):
        raise failure(errno.EINVAL)
    host = raw[4:8] if family == socket.AF_INET else raw[8:24]
    return host, struct.unpack_from(">H", raw, 2)[0]


def plain_host(host: bytes) -> bytes:
    """An IPv4 address that is written as one of IPv6, as IPv4; any other as it is."""
    return host[12:] if host[:12] == _MAPPED else host


def is_here(host: bytes) -> bool:
    """Whether connections to a host stay in the sandbox."""
    host = plain_host(host)
    return host in _ANY or host == _LOOPBACK_V6 or (len(host) == 4 and host[0] == 127)


def is_closed(end: socket.socket) -> bool:
    """Whether the other end of a pair is closed."""
    poll = select.poll()
    poll.register(end, select.POLLRDHUP)
    return bool(poll.poll(0))


class Names:
    """The addresses that the sockets of one sandbox are bound to."""

    def __init__(self, tree: ContainedDirectory, drop: Callable[[Entry], None]) -> None:
        """Paths are those below ``tree``; ``drop`` forgets an entry whose program closed it."""
        self._tree = tree
        self._drop = drop
        self._bound: dict[Key, Entry] = {}

    def __len__(self) -> int:
        return len(self._bound)

    def give(self, entry: Entry, keys: list[Key], pin: int = -1) -> None:
        """Bind an entry to names that are free."""
        entry.keys, entry.pin = keys, pin
        self._bound.update(dict.fromkeys(keys, entry))

    def release(self, entry: Entry) -> None:
        """Make the names of an entry free."""
        for key in entry.keys:
            del self._bound[key]
        if entry.pin >= 0:
            os.close(entry.pin)
        entry.keys, entry.pin = [], -1

    def listener(self, key: Key) -> Entry:
        """The listener at an address. Raises ``OSError``."""
        found = self._bound.get(key)
        if found is None or not found.is_listening or is_closed(found.end):
            raise failure(errno.ECONNREFUSED)
        return found

    def table(self) -> bytes:
        """The ports with a listener, as ``/proc/net/tcp`` would have them."""
        lines = ["  sl  local_address rem_address   st"]
        for key, entry in self._bound.items():
            is_port = key[0] in (socket.AF_INET, socket.AF_INET6)
            if is_port and entry.is_listening and not is_closed(entry.end):
                lines.append(f"{len(lines) - 1:4}: 0100007F:{key[1]:04X} 00000000:0000 0A 0:0 0")
        return "".join(f"{line}\n" for line in lines).encode()

    def take_port(self, label: Label, host: bytes, port: int) -> list[Key]:
        """Find a free port and write it into the label. Raises ``OSError``."""
        if not is_here(host):
            raise failure(errno.EADDRNOTAVAIL)
        if port == TABLE_PORT:
            raise failure(errno.EADDRINUSE)
        is_any = not any(plain_host(host))
        families = [label.family]
        if len(host) == 16 and not label.only_v6 and (is_any or host[:12] == _MAPPED):
            families.append(socket.AF_INET)
        for _ in range(1 if port else _TRIES):
            number = port or ephemeral_port()
            keys: list[Key] = [(family, number) for family in families]
            if all(self._is_free(key) for key in keys):
                label.port, label.state, label.is_any = number, State.BOUND, is_any
                return keys
        raise failure(errno.EADDRINUSE)

    def make(self, call: SocketCall, raw: bytes) -> tuple[list[Key], int]:
        """A name for a Unix socket, and a descriptor that keeps it. Raises ``OSError``."""
        name = _abstract(raw)
        if name is not None:
            key = ("abstract", name or b"%05x" % random.randrange(1 << 20))
            if not self._is_free(key):
                raise failure(errno.EADDRINUSE)
            return [key], -1
        folder, _, name = _path(call, raw).rpartition(b"/")
        parent = self._tree.open(folder, follow=True)
        try:
            call.check()
            # A sign for people; what listens is found by its number.
            os.mknod(name, _MODE, dir_fd=parent)
            pin = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except FileExistsError:
            raise failure(errno.EADDRINUSE) from None
        finally:
            os.close(parent)
        found = os.fstat(pin)
        return [("path", found.st_dev, found.st_ino)], pin

    def find(self, call: SocketCall, raw: bytes) -> Key:
        """The name that an address of a Unix socket means. Raises ``OSError``."""
        if (name := _abstract(raw)) is not None:
            return ("abstract", name)
        fd = self._tree.open(_path(call, raw), follow=True)
        try:
            call.check()
            found = os.fstat(fd)
        finally:
            os.close(fd)
        return ("path", found.st_dev, found.st_ino)

    def _is_free(self, key: Key) -> bool:
        other = self._bound.get(key)
        if other is not None and is_closed(other.end):
            self._drop(other)
            return True
        return other is None


def _abstract(raw: bytes) -> bytes | None:
    """The abstract name of an address; None where it has a path."""
    if struct.unpack_from("H", raw)[0] != socket.AF_UNIX:
        raise failure(errno.EINVAL)
    return raw[3:] if len(raw) == 2 or raw[2] == 0 else None


def _path(call: SocketCall, raw: bytes) -> bytes:
    path = raw[2:].partition(b"\0")[0]
    if path.startswith(b"/"):
        return path
    return os.readlink(b"/proc/%d/cwd" % call.asked.pid) + b"/" + path
