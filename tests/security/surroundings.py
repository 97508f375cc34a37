"""What stands outside the sandboxes and must stay as it is: files, a process, listening sockets."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "the-secret-of-the-host"
TOKEN = "SIEGE_TOKEN=5d1f0c"
_VICTIM = (
    "import sys, time; file = open('secret'); print(file.fileno(), flush=True); time.sleep(999)"
)
_IPC_CREAT = 0o1000


class Surroundings:
    """Opened before the first attack, looked at after each group of them."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._secret = home / "secret"
        self._public = home / "public"
        self._hits: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._transports: list[asyncio.DatagramTransport] = []

    async def open(self) -> None:
        self._secret.write_text(MARK)
        self._secret.chmod(0o600)
        self._public.write_text(MARK)
        self._public.chmod(0o644)
        os.setxattr(self._public, "user.mark", MARK.encode())
        self._state = self._look()
        name, _, value = TOKEN.partition("=")
        self._victim = subprocess.Popen(
            [sys.executable, "-c", _VICTIM], cwd=self._home, stdout=subprocess.PIPE,
            env=os.environ | {name: value},
        )  # fmt: skip
        assert self._victim.stdout is not None
        self._victim_fd = int(self._victim.stdout.readline())
        self._program = _describe(Path("/usr/bin/env"))
        self._host = socket.gethostname()
        self._memory = ctypes.CDLL(None).shmget(os.getpid(), 4096, _IPC_CREAT | 0o600)
        await self._listen()

    async def _listen(self) -> None:
        async def hit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._hits.append(str(writer.get_extra_info("sockname")))
            writer.close()

        everywhere = await asyncio.start_server(hit, "0.0.0.0", 0)
        self._port = everywhere.sockets[0].getsockname()[1]
        six = await asyncio.start_server(hit, "::1", 0)
        self._port6 = six.sockets[0].getsockname()[1]
        path = await asyncio.start_unix_server(hit, self._home / "service.sock")
        self._abstract = f"siege-{os.getpid()}"
        abstract = await asyncio.start_unix_server(hit, "\0" + self._abstract)
        self._servers = [everywhere, six, path, abstract]
        hits = self._hits

        class Datagrams(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                hits.append("datagram")

        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Datagrams, ("127.0.0.1", 0))
        self._udp_port = transport.get_extra_info("sockname")[1]
        self._transports = [transport]

    def context(self) -> dict[str, Any]:
        """What the attacker is told."""
        return {
            "home": str(self._home), "secret": str(self._secret), "public": str(self._public),
            "mark": MARK, "token": TOKEN, "victim": self._victim.pid, "host": self._host,
            "victim_fd": self._victim_fd, "port": self._port, "port6": self._port6,
            "udp_port": self._udp_port, "abstract": self._abstract, "rebound": "ip6-loopback",
            "socket": str(self._home / "service.sock"), "shm_key": os.getpid(),
            "shm_id": self._memory,
        }  # fmt: skip

    def check(self) -> None:
        """Raise ``AssertionError`` when an attack reached anything."""
        assert self._look() == self._state, "a file of the host was changed"
        assert self._victim.poll() is None, "the process outside is gone"
        pid = self._victim.pid
        assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
        memory = ctypes.create_string_buffer(256)
        assert ctypes.CDLL(None).shmctl(self._memory, 2, memory) == 0, "shared memory is gone"
        limit = resource.RLIMIT_NOFILE
        assert resource.prlimit(pid, limit) == resource.getrlimit(limit)
        assert socket.gethostname() == self._host, "the machine has another name"
        assert _describe(Path("/usr/bin/env")) == self._program, "a program of the host was changed"
        assert self._hits == [], f"services of the host were reached: {self._hits}"

    def _look(self) -> list[Any]:
        return [
            (p.read_text(), p.stat().st_mode, p.stat().st_mtime_ns, os.listxattr(p))
            for p in (self._secret, self._public)
        ]

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for transport in self._transports:
            transport.close()
        self._victim.kill()
        self._victim.wait()
        if self._memory >= 0:
            ctypes.CDLL(None).shmctl(self._memory, 0, None)


def _describe(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns
