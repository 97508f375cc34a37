"""Templates from container images: archives, a real registry, and what is wrong with some."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from .conftest import Api, archive, entry, messages, run
from .images import BUSYBOX, TinyImage, digest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    not BUSYBOX.exists(), reason="needs the Debian package busybox-static"
)
REGISTRY = Path("/usr/bin/docker-registry")
LOOK = """
set -e
[ "$GREETING" = hello ]
[ ! -e /srv/gone ]
[ "$(ls /srv/dir)" = new ]
[ "$(cat /real/inside)" = "through a link" ]
[ "$(stat -c %u:%g /srv/owned)" = 33:33 ]
[ "$(id -un)" = user ]
"""


@pytest.mark.parametrize("form", ["layout", "saved"])
def test_an_imported_image_is_the_ground_of_builds(api: Api, form: str) -> None:
    content = getattr(TinyImage(), form)()
    answer = api.client.put(f"/engine/images/tiny-{form}", content=content)
    assert answer.status_code == 201, answer.text
    assert answer.json()["digest"] == digest(TinyImage().config)

    found = api.build(f"from-{form}", run(LOOK), fromImage=f"tiny-{form}")

    assert found["status"] == "ready", found
    made = api.client.post("/v2/sandboxes", json={"templateID": f"from-{form}"})
    assert made.status_code == 201, made.text
    api.client.delete(f"/sandboxes/{made.json()['sandboxID']}")


def test_a_link_out_of_the_image_leads_nowhere_outside(api: Api) -> None:
    mark = f"sbx-escape-{secrets.token_hex(8)}"
    image = TinyImage()
    image.layers[1] = image.plain[1] = archive(entry(f"escape/{mark}", content=b"out"))
    image.config = image.config.replace(
        digest(TinyImage().plain[1]).encode(), digest(image.plain[1]).encode()
    )
    answer = api.client.put("/engine/images/escaping", content=image.saved())
    assert answer.status_code == 201, answer.text
    assert not Path(f"/tmp/{mark}").exists()
    found = api.build("from-escaping", run(f"cat /tmp/{mark}"), fromImage="escaping")
    assert found["status"] == "ready", found


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"this is no tar", "not a complete tar"),
        (archive(entry("hello", content=b"x")), "not an image"),
        (archive(entry("manifest.json", content=b"[{}]")), "cannot be read"),
        (archive(entry("manifest.json", content=b'[{"Config": "../x", "Layers": ["y"]}]')), "y"),
    ],
)
def test_what_is_no_image_is_refused(api: Api, content: bytes, text: str) -> None:
    answer = api.client.put("/engine/images/broken", content=content)
    assert answer.status_code == 400, answer.text
    assert text in answer.json()["message"]


def test_a_damaged_layer_is_found_by_its_digest(api: Api) -> None:
    answer = api.client.put("/engine/images/damaged", content=TinyImage().layout(damage=True))
    assert answer.status_code == 400
    assert "is damaged" in answer.json()["message"]
    assert api.build("from-damaged", fromImage="127.0.0.1:1/damaged")["status"] == "error"


def test_a_registry_that_cannot_be_reached_fails_the_build_clearly(api: Api) -> None:
    found = api.build("unreachable", fromImage="127.0.0.1:1/nothing:latest")
    assert (found["status"], found["reason"]["step"]) == ("error", "base")
    assert "the registry 127.0.0.1:1 cannot be reached" in found["reason"]["message"]


def test_the_image_that_clients_take_by_default_is_the_stock_template(api: Api) -> None:
    found = api.build("by-default", run("python3 --version"), fromImage="e2bdev/base")
    assert found["status"] == "ready", found
    assert "the stock template 'base' stands for it" in messages(found)


@contextlib.contextmanager
def serve_registry(folder: Path, auth: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real registry on a free port; ``auth`` is its configuration."""
    if not REGISTRY.exists():
        pytest.skip("needs the Debian package docker-registry")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / f"config-{port}.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\n{auth}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(
        [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(httpx.TransportError):
                url = f"http://127.0.0.1:{port}/v2/"
                if httpx.get(url, trust_env=False).status_code in (200, 401):
                    break
            assert time.monotonic() < deadline, "the registry does not start"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with serve_registry(tmp_path) as running:
        yield running


def push(host: str, image: TinyImage) -> None:
    with httpx.Client(base_url=f"http://{host}/v2/tiny/", trust_env=False) as client:
        for part in (*image.layers, image.config):
            where = client.post("blobs/uploads/").headers["Location"]
            joint = "&" if "?" in where else "?"
            sent = client.put(f"{where}{joint}digest={digest(part)}", content=part)
            assert sent.status_code == 201, sent.text
        kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        sent = client.put("manifests/v1", content=image.manifest, headers=kind)
        assert sent.status_code == 201, sent.text


def test_an_image_is_pulled_from_a_registry_and_kept_for_when_it_is_gone(
    api: Api, registry: tuple[str, subprocess.Popen[bytes]]
) -> None:
    host, process = registry
    push(host, TinyImage())
    first = api.build("pulled", run(LOOK), fromImage=f"{host}/tiny:v1")
    assert first["status"] == "ready", first
    missing = api.build("missing", fromImage=f"{host}/tiny:v2")
    assert "does not have" in missing["reason"]["message"]
    process.terminate()
    process.wait(10)
    second = api.build("pulled", run(LOOK), run("true"), fromImage=f"{host}/tiny:v1")
    assert second["status"] == "ready", second
    assert "the image that was pulled before is used" in messages(second)


def test_a_registry_that_asks_for_a_password_gets_it(api: Api, tmp_path: Path) -> None:
    with serve_registry(tmp_path) as (host, _):
        push(host, TinyImage())
    salted = ["perl", "-e", "print crypt('secret', '$2b$04$abcdefghijklmnopqrstuu')"]
    made = subprocess.run(salted, capture_output=True, text=True, check=True).stdout
    (tmp_path / "htpasswd").write_text(f"me:{made}\n")
    auth = f"auth: {{htpasswd: {{realm: tiny, path: {tmp_path}/htpasswd}}}}"
    with serve_registry(tmp_path, auth) as (host, _):
        image = f"{host}/tiny:v1"
        refused = api.build("private", fromImage=image)
        assert "refuses access" in refused["reason"]["message"]
        wrong = {"type": "registry", "username": "me", "password": "guess"}
        refused = api.build("private", fromImage=image, fromImageRegistry=wrong)
        assert "refuses access" in refused["reason"]["message"]
        right = {"type": "registry", "username": "me", "password": "secret"}
        found = api.build("private", run(LOOK), fromImage=image, fromImageRegistry=right)
        assert found["status"] == "ready", found


def test_a_registry_that_gives_out_tokens_is_asked_for_one(api: Api, tmp_path: Path) -> None:
    with serve_registry(tmp_path) as (host, _):
        push(host, TinyImage())
    asked: list[str] = []

    class Tokens(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"token": "any"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            realm = f"http://127.0.0.1:{server.server_port}/token"
            with serve_registry(
                tmp_path, f"auth: {{silly: {{realm: '{realm}', service: tiny}}}}"
            ) as (host, _):
                found = api.build("by-token", run(LOOK), fromImage=f"{host}/tiny:v1")
        finally:
            server.shutdown()
            thread.join()
    assert found["status"] == "ready", found
    assert any("scope=repository" in path for path in asked)
