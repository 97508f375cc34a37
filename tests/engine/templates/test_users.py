"""Builds and images where the engine is no root: with one id, with a range of ids, by Landlock."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sbx_jupyter.client.connection.bundled import find_engine
from sbx_jupyter.isolation.kernel import landlock
from sbx_jupyter.protocol.locations import ConnectionFile, connection_file_of
from tests.engine_process import CHECKOUT
from tests.waiting import until

from .conftest import Api, archive, entry, messages, run
from .images import BUSYBOX, TinyImage

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = "/usr/bin/python3"
UID = 1478
PATIENCE = 60.0
KINDS = ("one id", "many ids", "landlock")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.getuid() != 0 or shutil.which("setpriv") is None or not Path(PYTHON).exists(),
        reason="needs root, setpriv and a Python that every user may execute, to become a user",
    ),
    pytest.mark.skipif(not BUSYBOX.exists(), reason="needs the Debian package busybox-static"),
    pytest.mark.timeout(120),
]


def missing(kind: str) -> str | None:
    """Why this machine does not give what a kind of user needs."""
    if kind == "many ids" and shutil.which("newuidmap") is None:
        return "needs newuidmap: apt-get install uidmap"
    if kind == "landlock" and landlock.abi() < landlock.NEEDED_ABI:
        return "needs Landlock"
    return None


def give_range(home: Path, uid: int = UID) -> str:
    """Commands that let the user have subordinate ids, in a mount namespace of its own."""
    accounts, ranges = home / "passwd", home / "subuid"
    line = f"sbxbuilds:x:{uid}:{uid}::/nonexistent:/bin/sh\n"
    accounts.write_text(Path("/etc/passwd").read_text() + line)
    ranges.write_text("sbxbuilds:400000:65536\n")
    mounts = [f"mount --bind {accounts} /etc/passwd"]
    for name in ("subuid", "subgid"):
        Path("/etc", name).touch()
        mounts.append(f"mount --bind {ranges} /etc/{name}")
    return "\n".join(mounts)


@contextlib.contextmanager
def user_engine(kind: str) -> Iterator[Api]:
    """An engine of a user, with a client of its platform API."""
    home = Path(tempfile.mkdtemp(prefix="sbx-builds-user-", dir="/tmp"))
    home.chmod(0o755)
    os.chown(home, UID, UID)
    data = home / "data"
    setup = give_range(home) if kind == "many ids" else "true"
    options = "--pool-size=0" + (" --isolation=landlock" if kind == "landlock" else "")
    command = f"{PYTHON} -B -m sbx_jupyter.cli.main engine --port 0 --data-dir {data} {options}"
    become = f"setpriv --reuid {UID} --regid {UID} --clear-groups"
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{CHECKOUT}:{sysconfig.get_path('purelib')}",
    }
    log = home / "engine.log"
    with log.open("wb") as output:
        engine = subprocess.Popen(
            ["unshare", "-m", "sh", "-ec", f"{setup}\nexec {become} {command}"],
            env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip

    def answering() -> ConnectionFile | None:
        assert engine.poll() is None, log.read_text()
        return find_engine(data) if connection_file_of(data).exists() else None

    try:
        found = until(answering, message="The engine did not answer")
        with httpx.Client(
            base_url=found.url, headers={"X-API-Key": found.api_key}, trust_env=False, timeout=60
        ) as client:
            yield Api(client, engine.pid)
    finally:
        engine.send_signal(signal.SIGTERM)
        try:
            engine.wait(PATIENCE)
        finally:
            engine.kill()
            engine.wait()
            shutil.rmtree(home)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if (why := missing(request.param)) is not None:
        pytest.skip(why)
    return request.param


@pytest.fixture(scope="module")
def user_api(kind: str) -> Iterator[Api]:
    with user_engine(kind) as api:
        yield api


def test_the_engine_is_of_the_kind_that_the_test_names(user_api: Api, kind: str) -> None:
    info = user_api.client.get("/engine/info").json()
    expected = {
        "one id": ("namespaces", "virtual"),
        "many ids": ("namespaces", "subordinate"),
        "landlock": ("landlock", "virtual"),
    }[kind]
    assert (info["tier"], info["isolation"]["users"]) == expected


def test_every_step_works_without_root(user_api: Api, kind: str) -> None:
    asked = user_api.request("steps")
    files = archive(entry("a", content=b"first"), entry("d/b", content=b"second", uid=33, gid=33))
    files_hash = user_api.upload(asked["templateID"], files)
    copy = {"type": "COPY", "args": [".", "/srv/copied", "www-data", ""], "filesHash": files_hash}
    at = "$SBX_ROOT" if kind == "landlock" else ""
    owner = {"one id": "root", "many ids": "www-data", "landlock": f"$(id -un {UID})"}[kind]
    user_api.start(
        asked,
        copy,
        {"type": "ENV", "args": ["A", "1", "B", "$A-2", "PATH", "/opt/made:$PATH"]},
        run(f'[ "$(cat {at}/srv/copied/a {at}/srv/copied/d/b)" = firstsecond ] && [ "$B" = 1-2 ]'),
        run(f'[ "$(stat -c %U {at}/srv/copied/d/b)" = "{owner}" ]', "root")
        if kind != "landlock"
        else run(f"chown www-data {at}/srv/copied/d/b", "root"),
        {"type": "WORKDIR", "args": ["/srv/made"]},
        run("echo $PWD > where && cat where"),
        {"type": "USER", "args": ["worker"]},
        run("echo by worker > ~/worker-was-here"),
        run(f"mkdir -p {at}/opt/made && sudo -n true", "root"),
        run(f"echo 'echo found' > {at}/opt/made/tool && chmod +x {at}/opt/made/tool", "root"),
        run("tool && rm ~/.bashrc && cat where ~/worker-was-here"),
    )
    found = user_api.wait(asked)
    assert found["status"] == "ready", messages(found)
    assert "[stdout]: found" in messages(found)
    assert "[stdout]: by worker" in messages(found)
    warned = "cannot install packages of the system" in messages(found)
    assert warned == (kind == "landlock")
    made = user_api.client.post("/v2/sandboxes", json={"templateID": "steps"})
    assert made.status_code == 201, made.text
    user_api.client.delete(f"/sandboxes/{made.json()['sandboxID']}")
    cached = user_api.build("steps", copy, fromTemplate="base")
    assert "CACHED COPY" in messages(cached)


OWNED = [
    entry("owned/user", content=b"u", uid=1000, gid=1000),
    entry("owned/www", content=b"w", uid=33, gid=33),
    entry("owned/nobody", content=b"n", uid=65534, gid=65534),
    entry("owned/beyond", content=b"b", uid=3_000_000, gid=3_000_000),
    entry("owned/closed", content=b"c", uid=33, gid=33, mode=0o600),
]


def test_the_owners_of_an_image_are_kept_where_there_are_ids_for_them(
    user_api: Api, kind: str
) -> None:
    """With one id they all become the user's own, which sandboxes see as root."""
    if kind == "landlock":
        pytest.skip("no images without namespaces")
    content = TinyImage("gzip", *OWNED).layout()
    answer = user_api.client.put("/engine/images/owned", content=content)
    assert answer.status_code == 201, answer.text
    owners = {
        "one id": "0:0 0:0 0:0 0:0 0:0",
        "many ids": "65535:65535 33:33 65534:65534 1000:1000 33:33",
    }[kind]
    look = 'cd /owned; [ "$(stat -c %u:%g beyond closed nobody user www | xargs)" = "$WANTED" ]'
    found = user_api.build(
        "from-owned",
        {"type": "ENV", "args": ["WANTED", owners]},
        run(f"{look} && cat /owned/*", "root"),
        fromImage="owned",
    )
    assert found["status"] == "ready", messages(found)
    can_read = user_api.build("from-owned", run("cat /owned/closed"), fromImage="owned")
    # With one id every user of a sandbox is that id.
    assert can_read["status"] == ("ready" if kind == "one id" else "error"), messages(can_read)


def test_without_namespaces_images_are_refused_in_words(user_api: Api, kind: str) -> None:
    if kind != "landlock":
        pytest.skip("images work here")
    words = "container images need isolation by namespaces"
    answer = user_api.client.put("/engine/images/tiny", content=TinyImage().layout())
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(words)
    failed = user_api.build("from-image", run("true"), fromImage="tiny")
    assert failed["status"] == "error"
    assert failed["reason"]["message"].startswith(words)


def test_a_template_serves_a_port_and_keeps_what_it_removed(user_api: Api, kind: str) -> None:
    """What a step removed stays away, scripts find their Python, and ports are waited for."""
    if kind != "landlock":
        pytest.skip("others do this with namespaces")
    start = "python3 -m http.server 8123"
    found = user_api.build(
        "served",
        {"type": "WORKDIR", "args": ["/site"]},
        run("echo old > gone && echo new > index.html"),
        run("rm gone"),
        run("head -c 2 $(command -v pip) && sudo pip --version > version"),
        startCmd=start,
        readyCmd='[ -n "$(ss -Htuln sport = :8123)" ]',
    )
    assert found["status"] == "ready", messages(found)
    again = user_api.build("served-again", fromTemplate="served", startCmd=start)
    assert "wait until something listens on port 8123" in messages(again)
    made = user_api.client.post("/v2/sandboxes", json={"templateID": "served"}).json()
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "8123"}
    page = user_api.client.get("/", headers=headers)
    gone = user_api.client.get("/gone", headers=headers)
    user_api.client.delete(f"/sandboxes/{made['sandboxID']}")
    assert (page.status_code, page.text, gone.status_code) == (200, "new\n", 404)
