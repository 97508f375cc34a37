"""Builds whose engine dies, stops or is asked for too much; nothing of them may stay."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.checks import check_error
from tests.engine_process import engine_process, start_engine
from tests.waiting import until

from .conftest import Api, archive, entry, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine_process import EngineProcess

pytestmark = pytest.mark.long


@pytest.fixture
def own_engine() -> Iterator[EngineProcess]:
    with engine_process("builds") as running:
        yield running


@contextlib.contextmanager
def api_of(engine: EngineProcess) -> Iterator[Api]:
    found = engine.connection
    with httpx.Client(
        base_url=found.url, headers={"X-API-Key": found.api_key}, trust_env=False, timeout=30
    ) as client:
        assert engine.process is not None
        yield Api(client, engine.process.pid)


def names_below(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def processes_with(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and mark.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


def test_a_build_whose_engine_was_killed_has_failed_and_leaves_nothing(
    own_engine: EngineProcess,
) -> None:
    data = own_engine.data_dir
    with api_of(own_engine) as api:
        done = api.build("survivor", run("echo kept > /tmp/kept"))
        assert done["status"] == "ready"
        kept_layers = names_below(data / "layers")
        asked = api.request("victim")
        files_hash = api.upload(asked["templateID"], archive(entry("a", content=b"x")))
        api.start(asked, run("echo first > /tmp/first"), run("sleep 86417"))
        until(lambda: processes_with("86417"), message="the step does not run")
        part = data / "uploads" / f"{'a' * 64}.{'0123' * 4}.part"
        part.write_bytes(b"half")
    own_engine.kill()
    own_engine.start()

    with api_of(own_engine) as api:
        found = api.wait(asked)
        assert found["status"] == "error"
        assert found["reason"]["message"] == "the engine stopped"
        assert any("RUN echo first" in entry["message"] for entry in found["logEntries"])
        assert not processes_with("86417")
        assert names_below(data / "layers") == kept_layers
        assert not part.exists()
        link = api.client.get(f"/templates/{asked['templateID']}/files/{files_hash}").json()
        assert link["present"] is True
        until(lambda: len(names_below(data / "sandboxes")) <= 4, message="a writable layer stays")
        again = api.build("survivor", run("echo kept > /tmp/kept"))
        assert any("CACHED RUN" in entry["message"] for entry in again["logEntries"])


def test_no_entry_that_was_shown_changes_its_place_when_the_engine_is_killed(
    own_engine: EngineProcess,
) -> None:
    seen: list[dict[str, object]] = []
    with api_of(own_engine) as api:
        asked = api.request("followed")
        api.start(asked, run("for i in $(seq 300); do echo line $i; sleep 0.01; done; sleep 60"))

        def follow() -> bool:
            seen.extend(api.status(asked, logsOffset=len(seen))["logEntries"])
            return len(seen) > 100

        until(follow, message="nothing is shown")
    own_engine.kill()
    log = own_engine.data_dir / "builds" / f"{asked['buildID']}.jsonl"
    with log.open("ab") as file:
        file.write(b'{"timestamp": "2026-01-01T00:00:00Z", "mess')  # what a crash may leave
    own_engine.start()

    with api_of(own_engine) as api:
        ended = api.wait(asked)
        assert ended["logEntries"][: len(seen)] == seen
        last = ended["logEntries"][-1]
        assert (last["message"], last["level"]) == ("the engine stopped", "error")
        rest = api.status(asked, logsOffset=len(seen))["logEntries"]
        assert rest == ended["logEntries"][len(seen) : len(seen) + 100]


def test_an_announced_build_waits_for_its_start_over_a_crash(own_engine: EngineProcess) -> None:
    with api_of(own_engine) as api:
        today = api.request("announced")
        older = api.client.post("/templates", json={"dockerfile": "FROM e2bdev/base"}).json()
    own_engine.kill()
    own_engine.start()
    with api_of(own_engine) as api:
        assert api.status(today)["status"] == api.status(older)["status"] == "waiting"
        api.start(today, run("true"))
        path = f"/templates/{older['templateID']}/builds/{older['buildID']}"
        assert api.client.post(path).status_code == 202
        assert api.wait(today)["status"] == api.wait(older)["status"] == "ready"


def test_an_engine_that_stops_ends_its_builds(own_engine: EngineProcess) -> None:
    with api_of(own_engine) as api:
        asked = api.request("stopped")
        api.start(asked, run("sleep 86418"))
        until(lambda: processes_with("86418"), message="the step does not run")
    own_engine.stop()
    assert not processes_with("86418")
    own_engine.start()
    with api_of(own_engine) as api:
        assert api.wait(asked)["reason"]["message"] == "the engine stopped"


def test_a_failed_build_leaves_no_layer_but_those_of_its_good_steps(
    own_engine: EngineProcess,
) -> None:
    data = own_engine.data_dir
    with api_of(own_engine) as api:
        api.build("layers", run("echo good > /tmp/good"), run("exit 1"))
        good = names_below(data / "layers")
        beside = not own_engine.is_separate
        assert len(good) == 1 + beside  # the layer, and its manifest where it is kept there
        found = api.build("layers", run("echo good > /tmp/good"), run("exit 1"))
        assert any("CACHED RUN" in entry["message"] for entry in found["logEntries"])
        assert names_below(data / "layers") == good
        assert api.client.get("/v2/sandboxes").json() == []


def test_a_removed_template_takes_its_own_layers_along(own_engine: EngineProcess) -> None:
    data = own_engine.data_dir
    with api_of(own_engine) as api:
        asked = api.request("removed")
        api.start(asked, run("true"))
        api.wait(asked)
        before = names_below(data / "layers")
        running = api.request("removed")
        api.start(running, run("sleep 86419"))
        until(lambda: processes_with("86419"), message="the step does not run")
        assert api.client.delete("/templates/removed").status_code == 204
        assert not processes_with("86419")
        until(lambda: len(names_below(data / "layers")) < len(before))
        assert not names_below(data / "builds")


@pytest.fixture
def strict_api(tmp_path: Path) -> Iterator[Api]:
    """An engine that allows builds very little."""
    found = start_engine(
        tmp_path / "data",
        "--pool-size=0",
        "--SbxEngine.max_builds=2",
        "--SbxEngine.parallel_builds=1",
        "--SbxEngine.build_step_timeout=3",
        "--SbxEngine.default_disk_mb=64",
    )
    try:
        with httpx.Client(
            base_url=found.url, headers={"X-API-Key": found.key}, trust_env=False, timeout=30
        ) as client:
            yield Api(client)
    finally:
        assert found.stop() == 0


def test_a_step_that_never_ends_is_stopped_and_the_queue_is_bounded(
    strict_api: Api, tmp_path: Path
) -> None:
    first = strict_api.request("endless")
    second = strict_api.request("waiting")
    strict_api.start(first, run("while true; do :; done"))
    strict_api.start(second, run("true"))
    refused = strict_api.client.post("/v3/templates", json={"name": "one-too-many"})
    check_error(refused, 429)
    ended = strict_api.wait(first)
    assert ended["reason"]["message"].endswith("command failed: it ran longer than 3 seconds")
    assert strict_api.wait(second)["status"] == "ready"
    again = strict_api.request("endless")
    strict_api.start(again, run("while true; do :; done"))
    assert not any(
        "CACHED RUN" in entry["message"] for entry in strict_api.wait(again)["logEntries"]
    )
    # There is what the second made, and the user that both steps stand on.
    layers = names_below(tmp_path / "data" / "layers")
    strict_api.client.delete("/templates/endless")
    assert names_below(tmp_path / "data" / "layers") == layers


def test_the_builds_of_one_owner_keep_no_other_from_building(strict_api: Api) -> None:
    endless = run("while true; do :; done")
    first, second = strict_api.request("first"), strict_api.request("second")
    strict_api.start(first, endless)
    strict_api.start(second, endless)
    key = strict_api.client.post("/engine/keys", json={"owner": "other"}).json()["key"]
    with httpx.Client(
        base_url=strict_api.client.base_url,
        headers={"X-API-Key": key},
        trust_env=False,
        timeout=30,
    ) as client:
        other = Api(client).build("other", run("true"))
    assert other["status"] == "ready", other
    # It began later and was next all the same.
    assert strict_api.status(first)["status"] == "error"
    assert strict_api.status(second)["status"] == "building"
    assert strict_api.wait(second)["status"] == "error"


def test_a_step_that_fills_the_disk_fails_and_leaves_no_layer(
    strict_api: Api, tmp_path: Path
) -> None:
    fill = "for i in 1 2 3 4; do head -c 40000000 /dev/zero > /tmp/$i; done"
    found = strict_api.build("too-large", run(fill))
    assert found["status"] == "error", found
    assert found["reason"]["message"].endswith("command failed: it wrote more than 64 MiB")
    assert not names_below(tmp_path / "data" / "layers")
    slow = strict_api.build("too-large", run(f"({fill}); sleep 60"))
    assert slow["reason"]["message"].endswith("command failed: it wrote more than 64 MiB")


def test_a_step_that_prints_a_gigabyte_costs_the_engine_no_memory(
    own_engine: EngineProcess,
) -> None:
    with api_of(own_engine) as api:
        before = api.used_memory()
        found = api.build("loud", run("yes 'a line of the output of a step' | head -c 1000000000"))
        assert found["status"] == "ready", found["reason"]
        assert sum("the rest is cut" in item["message"] for item in found["logEntries"]) == 1
        assert len(found["logEntries"]) < 10_100
        one_line = api.build("loud", run("head -c 300000000 /dev/zero | tr '\\0' x; exit 1"))
        assert one_line["reason"]["message"].endswith("command failed: exit status 1")
        assert api.used_memory() - before < 200 << 20
