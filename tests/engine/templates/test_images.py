"""Templates from container images: archives, a real registry, and what is wrong with some."""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.engine_process import start_engine
from tests.waiting import PATIENCE

from .conftest import Api, archive, entry, messages, run
from .images import BUSYBOX, LOOK, TinyImage, digest, zstd
from .registries import htpasswd, push, serve_registry, serve_tokens, silly_auth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message

pytestmark = pytest.mark.skipif(
    not BUSYBOX.exists(), reason="needs the Debian package busybox-static"
)


@pytest.mark.parametrize(
    ("form", "compression"), [("layout", "gzip"), ("saved", "gzip"), ("layout", "zstd")]
)
def test_an_imported_image_is_the_ground_of_builds(api: Api, form: str, compression: str) -> None:
    image = TinyImage(compression)
    image.envs.append(f"FORM={form}-{compression}")  # no two of these are one image
    name = f"tiny-{form}-{compression}"
    answer = api.client.put(f"/engine/images/{name}", content=getattr(image, form)())
    assert answer.status_code == 201, answer.text
    assert answer.json()["digest"] == digest(image.config)

    found = api.build(f"from-{form}", run(LOOK), fromImage=name)

    assert found["status"] == "ready", found
    made = api.client.post("/v2/sandboxes", json={"templateID": f"from-{form}"})
    assert made.status_code == 201, made.text
    api.client.delete(f"/sandboxes/{made.json()['sandboxID']}")


def test_a_link_out_of_the_image_leads_nowhere_outside(api: Api) -> None:
    mark = f"sbx-escape-{secrets.token_hex(8)}"
    image = TinyImage("gzip", entry(f"escape/{mark}", content=b"out"))
    answer = api.client.put("/engine/images/escaping", content=image.saved())
    assert answer.status_code == 201, answer.text
    assert not Path(f"/tmp/{mark}").exists()
    found = api.build("from-escaping", run(f"cat /tmp/{mark}"), fromImage="escaping")
    assert found["status"] == "ready", found


@contextlib.contextmanager
def small_engine(data: Path) -> Iterator[Api]:
    found = start_engine(data, "--pool-size=0")
    try:
        with httpx.Client(
            base_url=found.url, headers={"X-API-Key": found.key}, trust_env=False, timeout=60
        ) as client:
            yield Api(client, found.pid)
    finally:
        assert found.stop() == 0


def with_upper(layer: bytes, plain: bytes = b"") -> TinyImage:
    image = TinyImage()
    image.layers[1], image.plain[1] = layer, plain
    return image


def test_frames_of_zstd_may_follow_each_other_and_be_skipped(api: Api) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"table"
    plain = TinyImage().plain[1]
    frames = [zstd.compress(plain[:512]), zstd.compress(plain[512:])]
    layer = skipped + skipped.join(frames) + skipped
    answer = api.client.put("/engine/images/framed", content=with_upper(layer, plain).layout())
    assert answer.status_code == 201, answer.text
    found = api.build("from-framed", run(LOOK), fromImage="framed")
    assert found["status"] == "ready", found


def wide_frame() -> bytes:
    """A small frame that asks for a window of two gigabytes."""
    packer = zstd.ZstdCompressor(options={int(zstd.CompressionParameter.window_log): 31})
    return packer.compress(bytes(1 << 20)) + packer.flush()


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (wide_frame(), "requires too much memory"),
        (zstd.compress(b"some content")[:-2], "ended before"),
        (zstd.compress(b"some content") + b"garbage", "Unable to decompress"),
        (zstd.compress(b"some content"), "is not sha256:"),
        (b"\x50\x2a\x4d\x18" + b"\xff" * 4, "ended before"),
    ],
)
def test_a_hostile_frame_of_zstd_is_refused(api: Api, layer: bytes, text: str) -> None:
    before = api.used_memory()
    answer = api.client.put("/engine/images/framed-badly", content=with_upper(layer).layout())
    assert (answer.status_code, text in answer.json()["message"]) == (400, True), answer.text
    assert api.used_memory() - before < 64 << 20


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a small disk")
@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_a_layer_that_grows_beyond_the_disk_is_refused(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", disk], check=True)
    try:
        with small_engine(disk / "data") as api:
            image = with_upper(compress(bytes(1 << 30)))
            answer = api.client.put("/engine/images/bomb", content=image.layout())
            assert answer.status_code == 507, answer.text
            assert "larger than the space that is left" in answer.json()["message"]
            assert not list((disk / "data" / "layers").iterdir())
            assert not list((disk / "data" / "blobs").glob("*.part"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


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
def registry(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with serve_registry(tmp_path) as running:
        yield running


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
    process.wait(PATIENCE)
    second = api.build("pulled", run(LOOK), run("true"), fromImage=f"{host}/tiny:v1")
    assert second["status"] == "ready", second
    assert "the image that was pulled before is used" in messages(second)
    key = api.client.post("/engine/keys", json={"owner": "somebody"}).json()["key"]
    with httpx.Client(
        base_url=api.client.base_url, headers={"X-API-Key": key}, timeout=PATIENCE
    ) as client:
        other = Api(client).build("pulled", fromImage=f"{host}/tiny:v1")
    assert other["status"] == "error", "the image of somebody else is used"


def test_a_registry_that_asks_for_a_password_gets_it(api: Api, tmp_path: Path) -> None:
    with serve_registry(tmp_path) as (host, _):
        push(host, TinyImage())
    auth = htpasswd(tmp_path, "me", "secret")
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

    def give(path: str, headers: Message) -> str:
        asked.append(path)
        return "any"

    with serve_tokens(give) as realm, serve_registry(tmp_path, silly_auth(realm)) as (host, _):
        found = api.build("by-token", run(LOOK), fromImage=f"{host}/tiny:v1")
    assert found["status"] == "ready", found
    assert any("scope=repository" in path for path in asked)
