"""The engine's key and the sandboxes' tokens stay in the server process."""

from __future__ import annotations

import json

import pytest

from sbx_jupyter.client import ConnectionConfig, PlatformClient

pytestmark = pytest.mark.usefixtures("with_engine")

ANSWERING = [
    ("GET", ""),
    ("POST", "connect"),
    ("GET", "metrics"),
    ("GET", "metrics/history"),
    ("GET", "terminals"),
    ("POST", "rpc/filesystem.Filesystem/ListDir"),
    ("POST", "rpc/process.Process/List"),
    ("GET", "files?path=/etc/hostname"),
    ("GET", "files?path=/no/such/file"),
    ("POST", "files?path=/tmp/new"),
    ("POST", "rpc/process.Process/Start"),
    ("POST", "timeout"),
]


@pytest.fixture
async def secrets(engine, sandbox):
    async with PlatformClient(ConnectionConfig.from_connection_file(engine.connection)) as client:
        detail = await client.get(sandbox)
    assert detail.envd_access_token
    return [engine.connection.api_key, detail.envd_access_token]


async def test_no_answer_holds_a_key_or_a_token(jp_fetch, sandbox, secrets):
    answers = []

    async def keep(method, *parts, params=None, body=None):
        response = await jp_fetch(
            "sbx", "api", *parts, method=method, params=params, body=body, raise_error=False
        )
        answers.append(str(response.headers.get_all()) + response.body.decode("latin-1"))
        return response

    created = await keep("POST", "sandboxes", body="{}")
    await keep("GET", "sandboxes")
    await keep("GET", "info")
    for method, path in ANSWERING:
        path, _, query = path.partition("?")
        params = dict([query.split("=")]) if query else None
        parts = path.split("/") if path else []
        body = "{}" if method == "POST" else None
        await keep(method, "sandboxes", sandbox, *parts, params=params, body=body)
    await keep("DELETE", "sandboxes", json.loads(created.body)["sandboxID"])

    assert len(answers) == len(ANSWERING) + 4
    for answer in answers:
        for secret in secrets:
            assert secret not in answer
        assert "Token" not in answer


async def test_no_frame_of_a_terminal_holds_a_key_or_a_token(open_socket, sandbox, secrets):
    socket = await open_socket(f"sandboxes/{sandbox}/terminal")
    await socket.write_message(b"env; cat /proc/*/environ /proc/*/cmdline; exit\n", binary=True)

    seen = b""
    while (frame := await socket.read_message()) is not None:
        seen += frame if isinstance(frame, bytes) else frame.encode()

    assert b"exit" in seen
    for secret in secrets:
        assert secret.encode() not in seen


async def test_the_log_of_the_server_holds_no_key_or_token(
    api, sandbox, secrets, jp_logging_stream, caplog
):
    await api("GET", "sandboxes", sandbox, "files", params={"path": "/no/such/file"})
    await api("POST", "sandboxes", body={"template": "no-such"})

    for secret in secrets:
        assert secret not in caplog.text
        assert secret not in jp_logging_stream.getvalue()
