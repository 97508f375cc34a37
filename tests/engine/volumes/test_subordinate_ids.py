"""What an engine of an ordinary user reads and changes of files that belong to subordinate ids."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sbx_jupyter import ConnectionConfig, Sandbox
from tests.checks import check_error
from tests.system_python import PYTHON
from tests.tiers.engines import engine_process_of
from tests.tiers.rows import MANY
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine_process import EngineProcess

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.getuid() != 0 or shutil.which("setpriv") is None or not Path(PYTHON).exists(),
        reason="needs root, setpriv and a Python that every user may execute, to become a user",
    ),
    pytest.mark.skipif(
        shutil.which("newuidmap") is None, reason="needs newuidmap: apt-get install uidmap"
    ),
]

CLOSED = (
    "umask 077 && mkdir closed closed/deep && echo secret > closed/deep/file && "
    "echo mine > own && ln -s /etc/passwd link"
)


class Volume:
    """One volume, through HTTP."""

    def __init__(self, engine: EngineProcess) -> None:
        self.http = httpx.Client(
            base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=60
        )
        self.name = os.urandom(4).hex()
        made = self.http.post("/volumes", json={"name": self.name}).json()
        self.id = made["volumeID"]
        self._bearer = {"Authorization": f"Bearer {made['token']}"}

    def ask(
        self, verb: str, what: str, path: str, content: bytes = b"", **query: str
    ) -> httpx.Response:
        url = f"/volumecontent/{self.id}/{what}"
        asked = {"path": path, **query}
        return self.http.request(verb, url, params=asked, content=content, headers=self._bearer)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    with engine_process_of(MANY, "--pool-size=0") as running:
        yield running


@pytest.fixture
def volume(engine: EngineProcess) -> Iterator[Volume]:
    made = Volume(engine)
    yield made
    made.http.close()


@pytest.fixture
def sandbox(engine: EngineProcess, volume: Volume) -> Iterator[Sandbox]:
    config = ConnectionConfig(engine.url, engine.key)
    with Sandbox.create(config=config, volumes={"/mnt/v": volume.name}) as created:
        yield created


def test_files_get_the_owners_that_sandboxes_see(volume: Volume, sandbox: Sandbox) -> None:
    by_default = volume.ask("PUT", "file", "/a/b", b"from outside", force="true").json()
    asked = volume.ask("PUT", "file", "/c", b"x", uid="1000", gid="1000", mode="384").json()

    assert (by_default["uid"], by_default["gid"], by_default["mode"]) == (9090, 9090, 0o666)
    assert (asked["uid"], asked["gid"], asked["mode"]) == (1000, 1000, 0o600)
    seen = sandbox.commands.run("stat -c '%n %u %a' a a/b c; cat a/b", cwd="/mnt/v").stdout
    assert seen == "a 9090 777\na/b 9090 666\nc 1000 600\nfrom outside"


def test_what_a_sandbox_closed_is_listed_read_changed_and_removed(
    volume: Volume, sandbox: Sandbox
) -> None:
    sandbox.commands.run(CLOSED, cwd="/mnt/v")

    listed = volume.ask("GET", "dir", "/", depth="3").json()
    read = volume.ask("GET", "file", "/closed/deep/file")
    replaced = volume.ask("PUT", "file", "/closed/deep/file", b"new", force="true")

    assert [(entry["path"], entry["uid"]) for entry in listed] == [
        ("/closed", 1000), ("/closed/deep", 1000), ("/closed/deep/file", 1000),
        ("/link", 1000), ("/own", 1000),
    ]  # fmt: skip
    assert read.content == b"secret\n"
    assert replaced.status_code == 201
    assert sandbox.files.read("/mnt/v/closed/deep/file", user="root") == "new"
    assert volume.ask("DELETE", "path", "/closed").status_code == 204
    assert sandbox.commands.run("ls", cwd="/mnt/v").stdout == "link\nown\n"


def test_errors_are_those_of_any_engine(volume: Volume, sandbox: Sandbox) -> None:
    sandbox.commands.run(f"{CLOSED}; ln -s ../../../../../../.. up", cwd="/mnt/v")

    missing = volume.ask("GET", "file", "/nothing")
    there = volume.ask("PUT", "file", "/own", b"x")
    outside = volume.ask("GET", "file", "/link")
    above = volume.ask("GET", "dir", "/up")

    check_error(missing, 404, code="not_found")
    assert there.status_code == 409
    assert outside.status_code == 404  # a link leads to the volume's own /etc
    assert "engine.db" not in above.text


def test_ids_that_sandboxes_do_not_have_are_refused(volume: Volume) -> None:
    refused = volume.ask("PUT", "file", "/f", b"x", uid="100000")

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
    assert volume.ask("GET", "dir", "/").json() == []


def test_a_snapshot_holds_what_a_sandbox_closed(volume: Volume, sandbox: Sandbox) -> None:
    sandbox.commands.run("echo kept > /kept; chown user / && chmod 700 /", user="root")

    snapshot = sandbox.create_snapshot()

    config = ConnectionConfig(str(volume.http.base_url), volume.http.headers["X-API-Key"])
    with Sandbox.create(snapshot.snapshot_id, config=config) as copy:
        assert copy.commands.run("cat /kept").stdout == "kept\n"


def test_an_archive_whose_helper_is_killed_is_not_taken_for_whole(
    engine: EngineProcess, volume: Volume, sandbox: Sandbox
) -> None:
    sandbox.commands.run("head -c 50000000 /dev/zero > big")
    url = f"/engine/sandboxes/{sandbox.sandbox_id}/diff.tar"
    others = _descendants(engine.pid)

    with volume.http.stream("GET", url) as answer:
        content = answer.iter_bytes(1000)
        assert next(content)
        for helper in _descendants(engine.pid) - others:
            os.kill(helper, signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError):
            sum(map(len, content))


def _descendants(pid: int) -> set[int]:
    """An engine's zygote, sandboxes, and what works on files for it."""
    found = _children(pid)
    return found.union(*map(_descendants, found))


def _children(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    with contextlib.suppress(FileNotFoundError):  # it has ended
        return {int(child) for task in tasks for child in task.read_text().split()}
    return set()


def test_a_removed_volume_leaves_nothing(
    engine: EngineProcess, volume: Volume, sandbox: Sandbox
) -> None:
    sandbox.commands.run(CLOSED, cwd="/mnt/v")
    sandbox.commands.run("chown user /mnt/v && chmod 700 /mnt/v", user="root")

    assert volume.http.delete(f"/volumes/{volume.id}").status_code == 204

    places = [engine.data_dir / name / volume.id for name in ("volumes", "volumes-removed")]
    until(lambda: not any(place.exists() for place in places))


def test_changes_in_closed_directories_are_listed_and_packed(
    volume: Volume, sandbox: Sandbox
) -> None:
    sandbox.commands.run(CLOSED)

    changes = {change.path: change.change for change in sandbox.diff().changes}
    packed = volume.http.get(f"/engine/sandboxes/{sandbox.sandbox_id}/diff.tar").content

    assert changes["/home/user/closed/deep/file"] == "added"
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.getmember("home/user/closed/deep/file")
        content = archive.extractfile(member)
        assert (content and content.read(), member.uid) == (b"secret\n", 1000)
