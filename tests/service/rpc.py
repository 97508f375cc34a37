"""Connect calls for tests, written out so that every byte is ours."""

from __future__ import annotations

import array
import base64
import fcntl
import json
import struct
import termios
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    import httpx

STREAM = "application/connect+json"


def envelope(message: Any, flags: int = 0) -> bytes:
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def envelopes(raw: bytes) -> Iterator[tuple[int, Any]]:
    while raw:
        flags, size = struct.unpack(">BI", raw[:5])
        assert len(raw) >= 5 + size, "an envelope is cut off"
        yield flags, json.loads(raw[5 : 5 + size])
        raw = raw[5 + size :]


def unary(client: httpx.Client, method: str, message: Any, **headers: str) -> httpx.Response:
    return client.post(f"/{method}", json=message, headers=headers)


def stream(client: httpx.Client, method: str, message: Any, **headers: str) -> list[Any]:
    """All messages of a server stream; the last one is the end-of-stream."""
    answer = client.post(
        f"/{method}",
        content=envelope(message),
        headers={"Content-Type": STREAM, **headers},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == STREAM
    found = list(envelopes(answer.content))
    assert found[-1][0] == 2
    assert all(flags == 0 for flags, _ in found[:-1])
    return [message for _, message in found]


def start_request(command: str, **fields: Any) -> dict[str, Any]:
    process = {"cmd": "/bin/bash", "args": ["-c", command]}
    return {"process": process, "stdin": False, **fields}


def run(client: httpx.Client, command: str) -> tuple[int, bytes]:
    """Exit code and stdout of a command."""
    messages = stream(client, "process.Process/Start", start_request(command))
    end = next(m["event"]["end"] for m in messages if "end" in m.get("event", {}))
    return end.get("exitCode", 0), output_of(messages, "stdout")


def output_of(messages: list[Any], kind: str) -> bytes:
    chunks = (m["event"]["data"].get(kind, "") for m in messages if "data" in m.get("event", {}))
    return b"".join(base64.b64decode(chunk) for chunk in chunks)


def drain(sock: socket.socket) -> None:
    """Read a connection to its end."""
    while sock.recv(1 << 20):
        pass


def unread(sock: socket.socket) -> int:
    """How many bytes have arrived that nobody has read."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]
