"""Registries that mean harm to the engine that pulls from them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest
import requests

from sbx_jupyter.engine.templates.images.blobs import Blobs
from sbx_jupyter.engine.templates.images.current_connection import CurrentConnection
from sbx_jupyter.engine.templates.images.registry import ImagePuller, parse_image_name
from sbx_jupyter.engine.templates.images.registry_session import MAX_SMALL, RegistrySession
from sbx_jupyter.errors import SbxError, UnavailableError

from .conftest import Api, archive, entry, messages, run
from .images import BUSYBOX, TinyImage, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serve(answer: Answer) -> Iterator[str]:
    """A registry on this machine that answers every request so; gives its host and port."""

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def send(to: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    to.send_response(status)
    for name, value in headers.items():
        to.send_header(name.replace("_", "-"), value)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)


def pull(host: str, folder: Path, connection: CurrentConnection | None = None) -> None:
    blobs = Blobs(folder / "blobs")
    blobs.open()
    connection = connection or CurrentConnection()
    try:
        puller = ImagePuller(parse_image_name(f"{host}/tiny"), None, connection)
        puller.pull(blobs, lambda _: None)
    finally:
        connection.end()


def send_forever(to: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    to.send_response(status)
    for name, value in headers.items():
        to.send_header(name, value)
    to.end_headers()
    sent = 0
    while sent < 64 * MAX_SMALL:  # an end, for the sake of a test that fails
        sent += to.wfile.write(bytes(MAX_SMALL))


@pytest.mark.parametrize("step", ["redirect", "token"])
def test_an_answer_without_end_is_not_read(step: str, tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(to: BaseHTTPRequestHandler) -> None:
        if to.path == "/v2/":
            send(to, 401, Www_Authenticate=f'Bearer realm="http://{host}/token",service="x"')
        elif step == "redirect":
            send_forever(to, 302, Location="/elsewhere")
        elif to.path.startswith("/token"):
            send_forever(to, 200)
        else:
            send(to, 401, Www_Authenticate=f'Bearer realm="http://{host}/token",service="x"')
        sent.append(to.path)  # not if the client closed before the end

    with serve(answer) as host, pytest.raises(UnavailableError):
        pull(host, tmp_path)

    assert not any(path.startswith(("/token", "/v2/tiny")) for path in sent if step == "redirect")
    assert not any(path.startswith("/token") for path in sent)


def test_logins_of_the_user_of_the_engine_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []

    def answer(to: BaseHTTPRequestHandler) -> None:
        given.append(to.headers["Authorization"])
        if to.path.startswith("/v2/tiny"):
            send(to, 302, Location=f"http://localhost:{host.rpartition(':')[2]}/moved")
        else:
            send(to, 404)

    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with serve(answer) as host, pytest.raises(SbxError):
        pull(host, tmp_path)

    assert given == [None, None, None]


def test_a_registry_leads_to_plain_http_at_no_step() -> None:
    asked: list[str] = []

    def answer(to: BaseHTTPRequestHandler) -> None:
        asked.append(to.path)
        send(to, 200)

    with serve(answer) as host:
        session = RegistrySession(CurrentConnection(), may_use_http=False)
        for stream in (True, False):
            with pytest.raises(requests.exceptions.InvalidSchema, match="plain HTTP"):
                session.get(f"http://{host}/metadata", stream=stream)

    assert asked == []


@pytest.mark.parametrize("step", ["head", "manifest", "token"])
async def test_a_pull_that_is_given_up_leaves_no_thread(step: str, tmp_path: Path) -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def answer(to: BaseHTTPRequestHandler) -> None:
        if to.path == "/v2/" and step != "head":
            send(to, 200)
        elif to.path.startswith("/v2/tiny") and step == "token":
            send(to, 401, Www_Authenticate=f'Bearer realm="http://{host}/token",service="x"')
        else:
            if step != "head":
                to.send_response(200)
                to.end_headers()
                to.wfile.write(b"{")
            is_asked.set()
            is_over.wait(60)

    connection = CurrentConnection()
    with serve(answer) as host:
        pulling = asyncio.create_task(asyncio.to_thread(pull, host, tmp_path, connection))
        await asyncio.to_thread(is_asked.wait, 60)
        connection.end()
        with pytest.raises(SbxError):
            async with asyncio.timeout(60):
                await pulling
        is_over.set()
    with pytest.raises(SbxError):
        pull(host, tmp_path, connection)


def serve_image(image: TinyImage, layers: list[bytes]) -> contextlib.AbstractContextManager[str]:
    """A registry with the documents of an image, and with no layers but these."""
    there = {f"/v2/tiny/blobs/{digest(part)}": part for part in (*layers, image.config)}

    def answer(to: BaseHTTPRequestHandler) -> None:
        if to.path == "/v2/":
            send(to, 200)
        elif to.path.startswith("/v2/tiny/manifests/"):
            send(to, 200, image.manifest)
        elif to.path in there:
            send(to, 200, there[to.path])
        else:
            send(to, 404)

    return serve(answer)


@contextlib.contextmanager
def owned(api: Api, owner: str) -> Iterator[Api]:
    """The platform API with a key of ``owner``."""
    key = api.client.post("/engine/keys", json={"owner": owner}).json()["key"]
    with httpx.Client(
        base_url=api.client.base_url, headers={"X-API-Key": key}, trust_env=False, timeout=30
    ) as client:
        yield Api(client)


@pytest.mark.long
@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs the Debian package busybox-static")
@pytest.mark.parametrize("named", ["layers", "image"])
def test_the_digest_of_what_another_owner_pulled_gives_nothing(api: Api, named: str) -> None:
    """The registry names private layers without having them, or a private image by its digest."""
    mark = secrets.token_hex(8)
    private = TinyImage("gzip", entry("srv/private", content=mark.encode()))
    look = run(f"grep -q {mark} /srv/private")
    forged = TinyImage("gzip", entry("srv/private", content=mark.encode()))
    own: list[bytes] = []
    if named == "layers":
        forged.envs.append("FORGED=1")
    else:
        # The same configuration, and so the same image, with layers of one's own.
        own = forged.layers = [archive(entry("srv/a", content=b"a")), archive(entry("srv/b"))]
    with owned(api, "victim") as victim, owned(api, "thief") as thief:
        with serve_image(private, private.layers) as host:
            found = victim.build(f"private-{named}", look, fromImage=f"{host}/tiny:v1")
            assert found["status"] == "ready", messages(found)

        with serve_image(forged, own) as host:
            stolen = thief.build(f"stolen-{named}", look, fromImage=f"{host}/tiny:v1")
        assert (stolen["status"], stolen["reason"]["step"]) == ("error", "base"), messages(stolen)

        with serve_image(private, private.layers) as host:
            fetched = thief.build(f"fetched-{named}", look, fromImage=f"{host}/tiny:v1")
        assert fetched["status"] == "ready", messages(fetched)
        with serve_image(private, []) as host:
            again = thief.build(f"fetched-{named}", look, fromImage=f"{host}/tiny:v1")
        assert again["status"] == "ready", messages(again)
