"""Requests whose every byte is written out, and what came back."""

from __future__ import annotations

import base64
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import httpx

JSON = "application/json"
PROTO = "application/proto"
STREAM = "application/connect+json"
GRPC_WEB = "application/grpc-web+json"


@dataclass
class Wire:
    """One sandbox of a real engine."""

    url: str
    sandbox_id: str
    token: str
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(
            base_url=self.url, headers=self.headers, trust_env=False, timeout=30
        )

    @property
    def headers(self) -> dict[str, str]:
        return {
            "E2b-Sandbox-Id": self.sandbox_id,
            "E2b-Sandbox-Port": "49983",
            "X-Access-Token": self.token,
        }

    def send(
        self, verb: str, path: str, body: bytes = b"", content_type: str = "", **headers: str
    ) -> httpx.Response:
        """Send a request; underscores in the names of headers become dashes."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type:
            given["Content-Type"] = content_type
        return self.client.request(verb, path, content=body, headers=given)

    def call(
        self, method: str, body: bytes, content_type: str = JSON, **headers: str
    ) -> httpx.Response:
        return self.send("POST", f"/{method}", body, content_type, **headers)

    def run(self, command: str) -> str:
        """The output of a command."""
        request = {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": False}
        answer = self.call("process.Process/Start", envelope(request), STREAM)
        data = [item["event"].get("data", {}) for _, item in envelopes(answer.content)[:-1]]
        return b"".join(base64.b64decode(item.get("stdout", "")) for item in data).decode()

    def read(self, path: str) -> bytes | None:
        """The content of a file, ``None`` when there is none."""
        answer = self.client.get("/files", params={"path": path})
        return answer.content if answer.status_code == 200 else None

    def write(self, path: str, content: bytes) -> None:
        octets = {"Content-Type": "application/octet-stream"}
        answer = self.client.post("/files", params={"path": path}, content=content, headers=octets)
        assert answer.status_code == 200, answer.text

    def raw(self, request: bytes) -> bytes:
        """What the engine answers to bytes on a connection, until it closes that."""
        port = httpx.URL(self.url).port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            sock.sendall(request)
            received = b""
            while piece := sock.recv(65536):
                received += piece
        return received


def envelope(message: Any, flags: int = 0) -> bytes:
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def envelopes(raw: bytes) -> list[tuple[int, Any]]:
    """The envelopes of an answer; trailers of gRPC-Web as text."""
    found: list[tuple[int, Any]] = []
    while raw:
        flags, size = struct.unpack(">BI", raw[:5])
        payload = raw[5 : 5 + size]
        assert len(payload) == size, "an envelope is cut off"
        found.append((flags, payload.decode() if flags & 0x80 else json.loads(payload)))
        raw = raw[5 + size :]
    return found


def outcome(answer: httpx.Response) -> str:
    """``ok`` or the Connect code of an answer, wherever its framing puts that."""
    if answer.headers["content-type"] in (STREAM, "application/connect+proto"):
        assert answer.status_code == 200
        end = answer.content
        while len(end) > 5 + struct.unpack(">I", end[1:5])[0]:
            end = end[5 + struct.unpack(">I", end[1:5])[0] :]
        return json.loads(end[5:]).get("error", {}).get("code", "ok")
    return "ok" if answer.status_code == 200 else answer.json()["code"]
