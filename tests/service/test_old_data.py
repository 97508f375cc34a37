"""An engine takes over the data directory of an older version: nothing that it held is lost."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sbx_jupyter import ConnectionConfig, Sandbox
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine.egress.world import MISSING, World, open_world
from tests.engine_process import EngineProcess
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVES = sorted((Path(__file__).parent / "old_data").glob("*.tar.xz"))
"""Data directories of engines of root, named after the commit or tag that made them.

Each holds a sandbox paused without memory, whose volume is mounted on ``/data``, its snapshot, a
template and the secret ``token``. Without the stock files of the machine, which each engine copies
anew.
"""

SECRET = "kept-secret"
"""What ``token`` is in each of them."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the files belong to several users"),
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """An internet whose servers note what reaches them."""
    with open_world() as made:
        yield made


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, world: World
) -> Iterator[EngineProcess]:
    """An engine of today on the unpacked directory."""
    folder = tmp_path_factory.mktemp("old") / "data"
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, numeric_owner=True, filter="fully_trusted")
    engine = EngineProcess(
        folder,
        options=(f"--ip={world.engine_ip}",),
        environment={"SSL_CERT_FILE": str(world.authority)},
        prefix=world.enter(),
    )
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def config(engine: EngineProcess) -> ConnectionConfig:
    return ConnectionConfig.from_connection_file(engine.connection)


@pytest.fixture(scope="module")
def platform(config: ConnectionConfig) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=config.api_url, headers={"X-API-Key": config.api_key}, timeout=PATIENCE
    ) as client:
        yield client


@pytest.mark.long
def test_the_key_of_the_directory_is_still_the_key(platform: httpx.Client) -> None:
    assert platform.get("/v2/sandboxes").status_code == 200


def test_a_paused_sandbox_resumes_with_its_files_and_its_volume(
    config: ConnectionConfig, platform: httpx.Client
) -> None:
    [paused] = platform.get("/v2/sandboxes", params={"state": "paused"}).json()
    assert paused["metadata"] == {"name": "paused"}

    box = Sandbox.connect(paused["sandboxID"], config=config)

    assert box.files.read("notes/link") == "written before the upgrade"
    assert box.files.read("/data/kept.txt") == "on-the-volume\n"
    assert (
        box.commands.run("stat -c '%U %a' notes/kept.txt; echo $KEPT").stdout == "user 600\nyes\n"
    )
    box.kill()


def test_a_snapshot_and_a_template_start_sandboxes(
    config: ConnectionConfig, platform: httpx.Client
) -> None:
    [snapshot] = platform.get("/snapshots").json()

    with Sandbox.create(snapshot["snapshotID"], config=config) as box:
        assert box.files.read("notes/kept.txt") == "written before the upgrade"
    with Sandbox.create("kept-template", config=config) as box:
        assert box.files.read("/home/user/built.txt") == "built\n"


def test_volumes_and_secrets_are_listed(platform: httpx.Client) -> None:
    assert [volume["name"] for volume in platform.get("/volumes").json()] == ["data"]
    assert [secret["name"] for secret in platform.get("/secrets").json()] == ["token"]


def test_a_secret_still_has_its_value(config: ConnectionConfig, world: World) -> None:
    headers = {"Authorization": "Bearer ${e2b.secrets.token}"}
    network = NetworkConfig(rules={"api.test": [{"transform": {"headers": headers}}]})

    with Sandbox.create(config=config, network=network) as box:
        said = box.commands.run("curl -sS --max-time 30 https://api.test:8443/kept")

    assert said.stdout.startswith("GET /kept HTTP/1.1"), said
    [seen] = [hit for hit in world.hits() if hit.startswith("request") and "/kept" in hit]
    assert f"Authorization: Bearer {SECRET}" in seen


def test_nothing_was_set_aside(engine: EngineProcess) -> None:
    quarantine = engine.data_dir / "quarantine"
    assert not quarantine.exists() or list(quarantine.iterdir()) == []
