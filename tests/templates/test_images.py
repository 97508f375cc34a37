"""Templates from container images: archives, a real registry, and what is wrong with some."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import time
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


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    if not REGISTRY.exists():
        pytest.skip("needs the Debian package docker-registry")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(
        [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}/v2/"
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url, trust_env=False).status_code == 200:
                    break
            assert time.monotonic() < deadline, "the registry does not start"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


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
    api: Api, registry: str
) -> None:
    push(registry, TinyImage())
    first = api.build("pulled", run(LOOK), fromImage=f"{registry}/tiny:v1")
    assert first["status"] == "ready", first
    missing = api.build("missing", fromImage=f"{registry}/tiny:v2")
    assert "does not have" in missing["reason"]["message"]
