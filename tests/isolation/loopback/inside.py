"""What programs do behind the broker; a function is run by name, and prints as JSON what it saw."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SYSCALL = ctypes.CDLL(None, use_errno=True).syscall
X86 = os.uname().machine == "x86_64"
SOCKET, CONNECT, ACCEPT, BIND, LISTEN, NAME, PEER, SET, GET, ACCEPT4 = (
    (41, 42, 43, 49, 50, 51, 52, 54, 55, 288) if X86 else (198, 203, 202, 200, 201, 204, 205, 208,
                                                          209, 242)
)  # fmt: skip
PORT = 8000


def said(call: Callable[..., Any], *values: Any) -> Any:
    """What a call gives, or the name of its error."""
    try:
        return call(*values)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def exchange(server: socket.socket, address: Any, family: int = socket.AF_INET) -> str:
    """Connect, accept and send a byte each way."""
    with socket.socket(family) as client:
        client.connect(address)
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"a")
            accepted.sendall(accepted.recv(1) + b"b")
            return client.recv(2).decode()


def meaning() -> dict[str, Any]:
    """How the calls behave."""
    seen: dict[str, Any] = {}
    server = socket.create_server(("127.0.0.1", PORT))
    client = socket.create_connection(("localhost", PORT))
    accepted, peer = server.accept()
    seen["names"] = (
        peer == client.getsockname() == accepted.getpeername()
        and client.getpeername() == accepted.getsockname() == ("127.0.0.1", PORT)
    )
    seen["family"] = socket.socket(fileno=os.dup(accepted.fileno())).family == socket.AF_INET
    seen["taken"] = said(socket.create_server, ("", PORT))
    client.shutdown(socket.SHUT_WR)
    seen["half open"] = [accepted.recv(1).decode(), accepted.send(b"late"), client.recv(9).decode()]
    server.setblocking(False)
    seen["nobody"] = said(server.accept)
    watch = select.poll()
    watch.register(server, select.POLLIN)
    before = watch.poll(0)
    waiting = [socket.create_connection(("127.0.0.1", PORT)) for _ in range(3)]
    states = [before, watch.poll(0) != []]
    for _ in waiting:
        server.accept()
    seen["readable"] = [*states, watch.poll(0)]
    fast = socket.socket()
    fast.setblocking(False)
    seen["at once"] = fast.connect_ex(("127.0.0.1", PORT))
    seen["writable"] = select.select([], [fast], [], 0)[1] == [fast]
    server.close()
    seen["closed"] = said(socket.create_connection, ("127.0.0.1", PORT))
    server = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True)
    seen["two families"] = [
        exchange(server, ("127.0.0.1", PORT)),
        exchange(server, ("::1", PORT), socket.AF_INET6),
    ]
    for name, address in (("elsewhere", "8.8.8.8"), ("metadata", "169.254.169.254")):
        seen[name] = said(socket.create_connection, (address, 80), 2)
    seen["foreign"] = said(socket.create_server, ("8.8.8.8", 0))
    seen["kinds"] = [
        said(socket.socket, family, kind)
        for family, kind in ((2, 2), (2, 3), (16, 3), (17, 3), (1, 2), (1, 5))
    ]
    seen["copies"] = copies()
    return seen | paths()


def paths() -> dict[str, Any]:
    """Unix sockets below the directory and elsewhere."""
    server = socket.socket(socket.AF_UNIX)
    server.bind("own.sock")
    server.listen()
    full = str(Path("own.sock").absolute())
    seen = {"own path": [exchange(server, name, socket.AF_UNIX) for name in ("own.sock", full)]}
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0own")
    abstract.listen()
    outside = sys.argv[2]
    os.symlink(outside, "link")

    def connect(path: str) -> None:
        socket.socket(socket.AF_UNIX).connect(path)

    return seen | {
        "abstract": exchange(abstract, "\0own", socket.AF_UNIX),
        "again": said(socket.socket(socket.AF_UNIX).bind, "own.sock"),
        "outside": [said(connect, path) for path in (outside, "../" + outside, "link", "\0host")],
        "bound outside": said(socket.socket(socket.AF_UNIX).bind, outside + ".mine"),
    }


def copies() -> list[Any]:
    """Sockets are shared with a child and go on after a copy is closed."""
    server = socket.create_server(("127.0.0.1", PORT + 1))
    os.dup(server.fileno())
    if os.fork() == 0:
        with socket.create_connection(("127.0.0.1", PORT + 1)) as client:
            client.sendall(b"child")
        os._exit(0)
    first = server.accept()[0].recv(9).decode()
    if os.fork() == 0:
        server.accept()[0].sendall(b"parent")
        os._exit(0)
    with socket.create_connection(("127.0.0.1", PORT + 1)) as client:
        second = client.recv(9).decode()
    os.wait()
    os.wait()
    return [first, second]


def blocked() -> dict[str, Any]:
    """Accepts that wait: for connections, a time, a signal."""
    server = socket.create_server(("127.0.0.1", PORT))
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(server.accept()[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    clients = [socket.create_connection(("127.0.0.1", PORT)) for _ in threads]
    for thread in threads:
        thread.join(20)
    seen: dict[str, Any] = {"threads": sorted(got) == sorted(c.getsockname() for c in clients)}

    class Stop(Exception):
        pass

    def stop(_number: int, _frame: object) -> None:
        raise Stop

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        server.accept()
    except Stop:
        seen["signal"] = "raised"
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    threading.Timer(0.3, socket.create_connection, (("127.0.0.1", PORT),)).start()
    seen["restarted"] = server.accept()[1][0]
    signal.setitimer(signal.ITIMER_REAL, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 100_000))
    seen["time"] = said(server.accept)
    ready, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))
        os.write(tells, b"x")
        server.accept()
        os._exit(0)
    os.read(ready, 1)
    while state_of(pid) != "S":  # it waits in its call
        pass
    os.kill(pid, signal.SIGSTOP)
    seen["stopped"] = os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    seen["ended"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return seen


def interrupted() -> dict[str, Any]:
    """A thousand signals a second, with handlers that restart calls: nothing fails."""
    hits = 0

    def count(_number: int, _frame: object) -> None:
        nonlocal hits
        hits += 1

    signal.signal(signal.SIGALRM, count)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    server = socket.create_server(("127.0.0.1", PORT))
    ends = Counter(said(exchange, server, ("127.0.0.1", PORT)) for _ in range(300))
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"ends": ends, "signals": hits > 0}


def forged() -> dict[str, Any]:
    """Every call with senseless arguments, from threads that change them meanwhile."""
    chance = random.Random(int(sys.argv[3]))
    pair = socket.socketpair()
    sockets = [*pair, socket.socket(), socket.socket(socket.AF_UNIX)]
    sockets[2].bind(("127.0.0.1", 0))
    numbers = [s.fileno() for s in sockets] + [
        os.open("/", os.O_PATH),
        -1,
        99999,
        1 << 31,
        1 << 63,
        0,
    ]
    page = mmap.mmap(-1, 1 << 16)  # of its own, as answers are written wherever they are asked for
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    addresses = [0, 1, start, start + 4090, 1 << 47, (1 << 63) + 5, (1 << 64) - 8, start]
    sizes = [0, 1, 2, 16, 28, 110, 128, 129, 1 << 31, (1 << 64) - 1, start]
    values = [*numbers, *addresses, *sizes, 1, 2, 10]
    running = True

    def scribble() -> None:
        noise = random.Random(7)
        while running:
            page[:4096] = noise.choice(
                [b"\1\0" + sys.argv[2].encode(), b"\2\0\x1f\x40\x7f\0\0\1", b"\1\0\0own"]
            ).ljust(4096, noise.choice([b"\0", b"\xff", b"/", b"\x10"]))

    scribbler = threading.Thread(target=scribble)
    scribbler.start()
    calls = [SOCKET, CONNECT, BIND, LISTEN, NAME, PEER, SET, GET]
    for _ in range(2000):
        picked = [chance.choice(values) for _ in range(5)]
        call = chance.choice(calls)
        if call == SOCKET:
            picked[:3] = [chance.choice((1, 2, 10, 99)), chance.choice((1, 0x801)), picked[2] & 7]
        made = SYSCALL(ctypes.c_long(call), *map(ctypes.c_ulong, picked))
        if call == SOCKET and made > 2:
            os.close(made)
    running = False
    scribbler.join()
    server = socket.create_server(("127.0.0.1", PORT))
    return {"after": exchange(server, ("127.0.0.1", PORT))}


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def held_by(keeper: int) -> int:
    """How many descriptors the keeper has between calls: it has more while it answers one."""
    counts: list[int] = []
    for _ in range(20):
        counts.append(len(os.listdir(f"/proc/{keeper}/fd")))
        time.sleep(0.005)
    return min(counts)


def left_by(keeper: int, before: int) -> int:
    """How many more it has than before, after a while."""
    deadline = time.monotonic() + 20
    while (left := held_by(keeper) - before) > 0 and time.monotonic() < deadline:
        pass
    return left


def floods() -> dict[str, Any]:
    """More sockets and connections than there may be, and what is left of them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    keeper = int(sys.argv[3])
    server = socket.create_server(("127.0.0.1", PORT))
    before = held_by(keeper)
    sockets: list[socket.socket] = []
    seen: dict[str, Any] = {}
    try:
        while len(sockets) < 9000:
            sockets.append(socket.socket())
    except OSError as error:
        seen["sockets"] = [errno.errorcode[error.errno or 0], len(sockets)]
    for sock in sockets:
        sock.close()
    sockets.clear()
    try:
        while len(sockets) < 9000:
            sock = socket.create_connection(("127.0.0.1", PORT))
            sock.setblocking(False)
            sock.send(bytes(100))
            sockets.append(sock)
    except OSError as error:
        seen["connections"] = [errno.errorcode[error.errno or 0], len(sockets)]
    for sock in sockets:
        sock.close()
    while select.select([server], [], [], 0)[0]:
        server.accept()[0].close()
    seen["after"] = exchange(server, ("127.0.0.1", PORT))
    return seen | {"left": left_by(keeper, before)}


def killed() -> dict[str, Any]:
    """Programs that are killed at any moment of a call leave nothing."""
    keeper = int(sys.argv[3])
    server = socket.create_server(("127.0.0.1", PORT))
    before = held_by(keeper)
    chance = random.Random(3)
    for _ in range(60):
        pid = os.fork()
        if pid == 0:
            waiter = threading.Thread(target=lambda: [server.accept() for _ in range(999)])
            waiter.daemon = True
            waiter.start()
            while True:
                said(socket.create_connection, ("127.0.0.1", PORT))
                said(socket.create_server, ("", 0))
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    while select.select([server], [], [], 0)[0]:
        server.accept()[0].close()
    left = left_by(keeper, before)
    return {"after": exchange(server, ("127.0.0.1", PORT)), "left": left}


if __name__ == "__main__":
    signal.alarm(0)
    print(json.dumps({f.__name__: f for f in (
        meaning, blocked, interrupted, forged, floods, killed
    )}[sys.argv[1]]()))  # fmt: skip
