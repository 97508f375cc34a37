"""What everything takes on the disk, and what is removed when somebody asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.checks import check_error
from tests.engine.storage.disk.conftest import Sandboxes, run
from tests.engine_process import CHECKOUT, EngineProcess
from tests.waiting import PATIENCE, until

MIB = 1 << 20


def use(api: httpx.Client) -> dict[str, Any]:
    answer = api.get("/engine/disk", params={"maxAge": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()


def of(items: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (found,) = (item for item in items if wanted.items() <= item.items())
    return found


def test_shared_layers_and_hard_links_count_once(
    api: httpx.Client, sandboxes: Sandboxes, engine: EngineProcess
) -> None:
    before = use(api)
    source = sandboxes.create()
    run(source, "head -c 20M /dev/urandom > ~/big; ln ~/big ~/also; truncate -s 1G ~/hole")

    written = of(use(api)["sandboxes"], sandboxID=source.sandbox_id)
    source.snapshot("counted")
    alone = of(use(api)["templates"], names=["local/counted"])
    copies = [sandboxes.create("counted") for _ in range(2)]
    run(copies[0], "head -c 5M /dev/urandom > ~/more")
    after = use(api)

    assert 20 * MIB <= written["ownBytes"] < 22 * MIB
    assert written["writtenBytes"] == written["ownBytes"]
    assert 20 * MIB <= alone["ownBytes"] < 22 * MIB
    assert alone["sharedBytes"] == 0
    template = of(after["templates"], names=["local/counted"])
    assert (template["kind"], template["ownBytes"]) == ("snapshot", 0)
    assert template["sharedBytes"] == alone["ownBytes"]
    assert template["builds"][0]["tags"] == ["default"]
    first, second = (of(after["sandboxes"], sandboxID=copy.sandbox_id) for copy in copies)
    assert 5 * MIB <= first["ownBytes"] < 6 * MIB
    assert second["ownBytes"] < MIB
    assert first["sharedBytes"] == second["sharedBytes"] == alone["ownBytes"]
    assert 45 * MIB <= after["totalBytes"] - before["totalBytes"] < 48 * MIB
    du = subprocess.run(
        ["du", "-sxB1", engine.data_dir], capture_output=True, text=True, check=True
    )
    assert abs(int(du.stdout.split()[0]) - after["totalBytes"]) < 2 * MIB
    for sandbox in (source, *copies):
        sandbox.kill()
    until(lambda: api.delete("/templates/counted").status_code == 204)


def test_a_paused_sandbox_and_a_volume_are_in_the_report(
    api: httpx.Client, sandboxes: Sandboxes
) -> None:
    volume = api.post("/volumes", json={"name": "measured"}).json()
    sandbox = sandboxes.create(volumes={"/mnt/v": "measured"})
    run(sandbox, "head -c 3M /dev/urandom > /mnt/v/f; head -c 2M /dev/urandom > ~/f")
    sandbox.pause(memory=False)

    found = use(api)

    paused = of(found["sandboxes"], sandboxID=sandbox.sandbox_id)
    assert paused["state"] == "paused"
    assert 2 * MIB <= paused["ownBytes"] < 3 * MIB
    assert 3 * MIB <= of(found["volumes"], name="measured")["ownBytes"] < 4 * MIB
    sandbox.kill()
    assert api.delete(f"/volumes/{volume['volumeID']}").status_code == 204


def test_a_report_has_its_age_and_is_measured_again_when_asked(api: httpx.Client) -> None:
    first = use(api)
    again = api.get("/engine/disk", params={"maxAge": 3600}).json()
    fresh = use(api)

    assert again["measuredAt"] == first["measuredAt"]
    assert again["ageSeconds"] > 0
    assert fresh["measuredAt"] > first["measuredAt"]
    assert fresh["ageSeconds"] == 0


@pytest.mark.parametrize("query", ["maxAge=-1", "maxAge=x", "maxAge=86401"])
def test_an_age_that_is_none_is_refused(api: httpx.Client, query: str) -> None:
    check_error(api.get(f"/engine/disk?{query}"), 400, "maxAge")


@pytest.mark.parametrize("path", ["/engine/disk", "/engine/sandboxes/x/operations"])
def test_nobody_without_the_key_learns_what_there_is(engine: EngineProcess, path: str) -> None:
    check_error(httpx.get(f"{engine.connection.url}{path}", trust_env=False, timeout=PATIENCE), 401)


def build(api: httpx.Client, name: str, *commands: str) -> dict[str, Any]:
    asked = api.post("/v3/templates", json={"name": name}).json()
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    steps = [{"type": "RUN", "args": [command, "root"]} for command in commands]
    answer = api.post(f"/v2{path}", json={"fromTemplate": "base", "steps": steps})
    assert answer.status_code == 202, answer.text
    until(lambda: api.get(f"{path}/status").json()["status"] in ("ready", "error"))
    assert api.get(f"{path}/status").json()["status"] == "ready"
    return asked


def test_prune_frees_the_steps_that_nothing_stands_on(
    api: httpx.Client, engine: EngineProcess, sandboxes: Sandboxes
) -> None:
    layers = set(os.listdir(engine.data_dir / "layers"))
    build(api, "gone", "head -c 8M /dev/urandom > /opt/gone")
    build(api, "stays", "head -c 4M /dev/urandom > /opt/stays")
    assert api.delete("/templates/gone").status_code == 204
    before = use(api)

    would = api.post("/engine/prune", json={"dryRun": True, "kinds": ["steps"]}).json()
    unchanged = use(api)
    did = api.post("/engine/prune", json={"kinds": ["steps"]}).json()
    after = use(api)

    assert unchanged["stepCache"] == before["stepCache"]
    assert would["dryRun"] is True
    assert would["pruned"] == did["pruned"]
    assert 8 * MIB <= did["freedBytes"] < 10 * MIB
    assert before["stepCache"]["ownBytes"] == did["freedBytes"]
    assert before["totalBytes"] - after["totalBytes"] > 7 * MIB  # the database grows meanwhile
    assert after["stepCache"] == {"ownBytes": 0, "sharedBytes": 0, "count": 0}
    assert run(sandboxes.create("stays"), "stat -c %s /opt/stays") == str(4 * MIB)
    sandboxes.made[-1].kill()
    until(lambda: api.delete("/templates/stays").status_code == 204)
    until(lambda: set(os.listdir(engine.data_dir / "layers")) == layers)


def test_uploads_are_pruned_once_no_build_can_be_about_to_use_them(
    api: httpx.Client, engine: EngineProcess
) -> None:
    fresh, old = (engine.data_dir / "uploads" / f"{name * 64}.tar" for name in "ab")
    for path in (fresh, old):
        path.write_bytes(bytes(MIB))
    os.utime(old, (1, 1))

    (pruned,) = api.post("/engine/prune", json={"kinds": ["uploads"]}).json()["pruned"]

    assert pruned == {"kind": "uploads", "count": 1, "freedBytes": MIB}
    assert fresh.exists()
    assert not old.exists()
    fresh.unlink()


@pytest.mark.parametrize("body", [{"kinds": ["everything"]}, {"dryRun": "maybe"}, []])
def test_a_prune_that_means_nothing_is_refused(api: httpx.Client, body: Any) -> None:
    check_error(api.post("/engine/prune", json=body), 400)


def command(
    engine: EngineProcess, *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "sbx_jupyter.cli.main",
            *arguments,
            "--data-dir",
            engine.data_dir,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=stdin,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )


@pytest.mark.long
def test_the_command_line_tells_and_prunes(
    api: httpx.Client, engine: EngineProcess, sandboxes: Sandboxes
) -> None:
    sandbox = sandboxes.create()
    build(api, "shown", "head -c 2M /dev/urandom > /opt/f")
    assert api.delete("/templates/shown").status_code == 204

    plain, as_json = command(engine, "disk"), command(engine, "disk", "--json")
    dry = command(engine, "prune", "--dry-run")
    unasked = command(engine, "prune")
    done = command(engine, "prune", "--yes", "steps")
    unknown = command(engine, "prune", "everything")

    assert sandbox.sandbox_id in plain.stdout
    assert "all together" in plain.stdout
    assert json.loads(as_json.stdout)["totalBytes"] > 0
    assert (dry.returncode, unasked.returncode, done.returncode) == (0, 1, 0)
    assert "cached build steps: 2." in dry.stdout
    assert "--yes or --dry-run" in unasked.stderr
    assert "Freed 2." in done.stdout
    assert (unknown.returncode, "none of steps" in unknown.stderr) == (1, True)
    assert use(api)["stepCache"]["count"] == 0


@pytest.mark.parametrize(("said", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_prune_asks_before_it_removes(
    api: httpx.Client, engine: EngineProcess, said: str, code: int
) -> None:
    build(api, "asked", "echo asked > /opt/f")
    assert api.delete("/templates/asked").status_code == 204
    ours, theirs = os.openpty()
    os.write(ours, said.encode())

    done = command(engine, "prune", "steps", stdin=theirs)

    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "Remove them and free" in done.stdout
    assert (use(api)["stepCache"]["count"] == 0) == (code == 0)
