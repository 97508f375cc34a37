"""Answers the calls about sockets of one sandbox.

A socket is one end of a pair, whose other end the broker keeps. A connect moves that end into the
listener's queue, an accept hands it out. A call takes effect only once its caller has the answer,
for the caller may be killed at any moment. Nothing waits here: an accept without a connection is
put aside and answered later.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import call_numbers
from sbx_jupyter.isolation.loopback import socket_options
from sbx_jupyter.isolation.loopback.calls import SocketCall, cookie_of, failure
from sbx_jupyter.isolation.loopback.delivery import (
    FAILURES,
    code_of,
    drain,
    hand_over,
    sender,
    teller,
)
from sbx_jupyter.isolation.loopback.entries import (
    Entry,
    Key,
    Names,
    ephemeral_port,
    is_here,
    parse_address,
    plain_host,
)
from sbx_jupyter.isolation.loopback.labels import Label, State
from sbx_jupyter.isolation.loopback.pending import has_signal
from sbx_jupyter.isolation.loopback.rules import BROKERED
from sbx_jupyter.protocol.sockets import TABLE_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.confined.contained_paths import ContainedDirectory
    from sbx_jupyter.isolation.kernel.notifications import Notification

    Done = Callable[[], None]

MOST_HELD: Final = 2048
"""Ends that the keeper holds for one sandbox: sockets that are not connected, and connections that
nobody has accepted."""
MOST_QUEUED: Final = 1024
"""Connections that wait for one socket. Programs that ask for fewer get as many too: where the
kernel would let a client wait for room in the queue, it is refused here."""
LOOK_INTERVAL: Final = 0.05
"""Seconds between two looks for signals to programs that wait in an accept."""

_SHARE: Final = 10
"""Times as long as a look takes, other work has its turn."""
_RESTART: Final = 512
"""ERESTARTSYS: the kernel makes of the call what the signal's action says."""
_KIND: Final = 0xF
_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_PROTOCOLS: Final = {
    socket.AF_UNIX: (0, 1), socket.AF_INET: (0, 6), socket.AF_INET6: (0, 6),
}  # fmt: skip


class Broker:
    """The loopback interface of one sandbox; poll ``fileno`` and call ``run`` when it is ready."""

    def __init__(self, tree: ContainedDirectory) -> None:
        """``tree`` holds the paths that Unix sockets can have."""
        self._ready = select.epoll()
        self._entries: dict[bytes, Entry] = {}
        self._ends: dict[int, Entry] = {}
        self._queued = 0
        self._names = Names(tree, self._drop)
        self._waiting: dict[int, Entry] = {}
        self._next_look = 0.0
        self._most = min(MOST_HELD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        by_name: dict[str, Callable[[SocketCall], Done | None]] = {
            "socket": self._socket,
            "bind": self._bind,
            "listen": self._listen,
            "connect": self._connect,
            "accept": self._accept,
            "accept4": self._accept4,
            "getsockname": self._getsockname,
            "getpeername": self._getpeername,
            "getsockopt": self._getsockopt,
            "setsockopt": self._setsockopt,
        }
        numbers = call_numbers.NUMBERS[call_numbers.HERE]
        self._perform = {numbers[name]: by_name[name] for name in BROKERED}

    def fileno(self) -> int:
        """Readable when a program closed a socket."""
        return self._ready.fileno()

    @property
    def held(self) -> int:
        """Number of held ends."""
        return len(self._entries) + self._queued

    def answers(self, number: int) -> bool:
        """Whether this is a call about sockets."""
        return number in self._perform

    def perform(self, asked: Notification) -> None:
        """Answer a call, at once or, if it waits for a connection, later."""
        call = SocketCall(asked)
        try:
            done = self._perform[asked.call](call)
        except FAILURES as error:
            asked.answer(code_of(error))
            return
        if done is not None and asked.answer(0):
            done()

    def run(self) -> None:
        """Forget sockets that were closed."""
        for fd, _ in self._ready.poll(0, max(1, len(self._ends))):
            if (entry := self._ends.get(fd)) is not None:
                self._drop(entry)

    def timeout(self) -> float | None:
        """Seconds until ``look`` is due; None while nobody waits."""
        return max(0.0, self._next_look - time.monotonic()) if self._waiting else None

    def look(self) -> None:
        """Interrupt accepts whose program got a signal, and those whose time is over."""
        now = time.monotonic()
        if not self._waiting or now < self._next_look:
            return
        for thread, entry in list(self._waiting.items()):
            call = entry.waiting[thread]
            if not call.asked.is_pending():
                self._stop_waiting(entry, thread)  # it was killed
            elif call.deadline is not None and call.deadline <= now:
                self._stop_waiting(entry, thread).answer(errno.EAGAIN)
            elif has_signal(thread):
                self._stop_waiting(entry, thread).answer(_RESTART)
        end = time.monotonic()
        self._next_look = end + max(LOOK_INTERVAL, _SHARE * (end - now))

    def dial(self, port: int, end: socket.socket) -> None:
        """Connect from outside; ``end`` is for the listener. Raises ``OSError``, closing it."""
        try:
            self._make_room()
            try:
                deliver = self._deliverer((socket.AF_INET, port), ephemeral_port())
            except ConnectionRefusedError:
                deliver = self._deliverer((socket.AF_INET6, port), ephemeral_port())
            deliver(end)
        except OSError:
            end.close()
            raise

    def serve_outside(self, port: int, way: socket.socket) -> None:
        """Send connections to a port through ``way`` until its other end is closed.

        Raises ``OSError``; then it is closed.
        """
        try:
            way.setblocking(False)
            entry = Entry(way, socket.AF_INET, cookie_of(way), is_listening=True, is_outside=True)
            keys = self._names.take_port(Label(socket.AF_INET), bytes(4), port)
            self._hold(entry)
        except OSError:
            way.close()
            raise
        self._names.give(entry, keys)

    def _make_room(self) -> None:
        """Raise ``OSError`` if as many ends are held as may be, without those closed meanwhile."""
        if self.held >= self._most:
            self.run()
        if self.held >= self._most:
            raise failure(errno.ENFILE)

    def _hold(self, entry: Entry) -> None:
        self._ready.register(entry.end, select.EPOLLRDHUP)
        self._entries[entry.cookie] = entry
        self._ends[entry.end.fileno()] = entry

    def _release(self, entry: Entry) -> None:
        """Forget an entry, but keep its end: its program closed it, or it is connected now."""
        self._ready.unregister(entry.end)
        del self._ends[entry.end.fileno()]
        del self._entries[entry.cookie]
        self._names.release(entry)
        for thread in list(entry.waiting):
            self._stop_waiting(entry, thread).answer(errno.EINVAL)
        while entry.queue:
            self._unqueue(entry).close()

    def _drop(self, entry: Entry) -> None:
        self._release(entry)
        entry.end.close()

    def _stop_waiting(self, entry: Entry, thread: int) -> Notification:
        del self._waiting[thread]
        return entry.waiting.pop(thread).asked

    def _queue(self, entry: Entry, end: socket.socket, *, first: bool = False) -> None:
        self._queued += 1
        if first:
            entry.queue.appendleft(end)
        else:
            entry.queue.append(end)

    def _unqueue(self, entry: Entry) -> socket.socket:
        self._queued -= 1
        return entry.queue.popleft()

    def _find(self, sock: socket.socket) -> tuple[Label, Entry | None]:
        """The label and the entry of a socket; only a connected one has no entry."""
        label = Label.of(sock) or Label(socket.AF_UNIX, State.CONNECTED)
        return label, self._entries.get(cookie_of(sock))

    def _socket(self, call: SocketCall) -> None:
        family, kind, protocol = (call.number(index) for index in range(3))
        if family not in _FAMILIES:
            raise failure(errno.EOPNOTSUPP)  # libzmq aborts on most other errors of netlink
        if kind & _KIND != socket.SOCK_STREAM or protocol not in _PROTOCOLS[family]:
            raise failure(errno.EPROTONOSUPPORT)
        self._make_room()
        theirs, end = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_STREAM | (kind & socket.SOCK_NONBLOCK)
        )
        with theirs:
            try:
                Label(family).put(theirs)
                entry = Entry(end, family, cookie_of(theirs))
                self._hold(entry)
            except OSError:
                end.close()
                raise
            try:
                call.asked.give(theirs.fileno(), close_on_exec=bool(kind & socket.SOCK_CLOEXEC))
            except OSError:
                self._drop(entry)
                raise

    def _bind(self, call: SocketCall) -> Done:
        raw = call.address()
        with call.socket() as sock:
            label, entry = self._find(sock)
            if entry is None or entry.keys:
                raise failure(errno.EINVAL)
            pin, path = -1, b""
            if label.family == socket.AF_UNIX:
                keys, pin = self._names.make(call, raw)
                label.state, path = State.BOUND, raw
            else:
                keys = self._names.take_port(label, *parse_address(raw, label.family))
            label.put(sock)
        entry.path = path
        # Bound before the answer: nobody but this call can have the name meanwhile.
        self._names.give(entry, keys, pin)
        return lambda: None

    def _listen(self, call: SocketCall) -> Done:
        with call.socket() as sock:
            label, entry = self._find(sock)
            if entry is None or (label.family == socket.AF_UNIX and not entry.keys):
                raise failure(errno.EINVAL)
            if not entry.keys:
                host = bytes(4 if label.family == socket.AF_INET else 16)
                self._names.give(entry, self._names.take_port(label, host, 0))
            label.state = State.LISTENING
            label.put(sock)
        entry.is_listening = True
        return lambda: None

    def _connect(self, call: SocketCall) -> Done:
        raw = call.address()
        with call.socket() as sock:
            label, entry = self._find(sock)
            if entry is None or entry.is_listening:
                raise failure(errno.EISCONN)
            key: Key
            if label.family == socket.AF_UNIX:
                key = self._names.find(call, raw)
            else:
                host, label.peer = parse_address(raw, label.family)
                if not is_here(host):
                    raise failure(errno.ENETUNREACH)
                label.is_mapped = len(plain_host(host)) < len(host)
                label.port = label.port or ephemeral_port()
                key = (socket.AF_INET if label.is_mapped else label.family, label.peer)
            deliver = self._deliverer(key, label.port)
            label.state = State.CONNECTED
            label.put(sock)
        found = entry

        def done() -> None:
            self._release(found)
            deliver(found.end)

        return done

    def _deliverer(self, key: Key, client_port: int) -> Callable[[socket.socket], None]:
        """A function that delivers a connection to the listener there. Raises ``OSError``."""
        if key == (socket.AF_INET, TABLE_PORT):
            return teller(self._names.table())
        target = self._names.listener(key)
        if target.is_outside:
            return sender(target.end)
        if len(target.queue) >= MOST_QUEUED:
            raise failure(errno.ECONNREFUSED)
        label = Label(target.family, State.CONNECTED)
        if target.family != socket.AF_UNIX:
            label.port, label.peer = int(key[1]), client_port
            label.is_mapped = target.family == socket.AF_INET6 and key[0] == socket.AF_INET

        def deliver(end: socket.socket) -> None:
            label.put(end)
            for thread in list(target.waiting):
                call = target.waiting[thread]
                self._stop_waiting(target, thread)
                if hand_over(call, end):
                    return
            self._queue(target, end)
            with contextlib.suppress(OSError):  # readable by hundreds of them already
                target.end.send(b"\0", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

        return deliver

    def _accept4(self, call: SocketCall) -> None:
        call.flags = call.number(3)
        self._accept(call)

    def _accept(self, call: SocketCall) -> None:
        with call.socket() as sock:
            _, entry = self._find(sock)
            if entry is None or not entry.is_listening:
                raise failure(errno.EINVAL)
            if entry.queue:
                end = self._unqueue(entry)
                if not hand_over(call, end):
                    self._queue(entry, end, first=True)
                elif not entry.queue:
                    drain(sock)
                return
            drain(sock)
            if fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK:
                raise failure(errno.EAGAIN)
            seconds, part = struct.unpack(
                "qq", sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
            )
        if seconds or part:
            call.deadline = time.monotonic() + seconds + part / 1e6
        thread = call.asked.pid
        if thread in self._waiting:  # of one that was killed, whose number this one has now
            self._stop_waiting(self._waiting[thread], thread)
        entry.waiting[thread] = call
        self._waiting[thread] = entry

    def _getsockname(self, call: SocketCall) -> Done:
        with call.socket() as sock:
            label, entry = self._find(sock)
        bound = entry.path if entry is not None else b""
        call.write(bound or label.address(), 1, 2)
        return lambda: None

    def _getpeername(self, call: SocketCall) -> Done:
        with call.socket() as sock:
            label, _ = self._find(sock)
        if label.state != State.CONNECTED:
            raise failure(errno.ENOTCONN)
        call.write(label.address(of_peer=True), 1, 2)
        return lambda: None

    def _getsockopt(self, call: SocketCall) -> Done:
        with call.socket() as sock:
            label, entry = self._find(sock)
            value = socket_options.value_of(
                sock, label, call.number(1), call.number(2), entry is not None
            )
        call.write(value, 3, 4)
        return lambda: None

    def _setsockopt(self, call: SocketCall) -> Done:
        """IPV6_V6ONLY, of which alone we are asked."""
        with call.socket() as sock:
            label, entry = self._find(sock)
            if entry is None or entry.keys or label.family != socket.AF_INET6:
                raise failure(errno.EINVAL)
            label.only_v6 = any(call.read(3, 4))
            label.put(sock)
        return lambda: None
