"""For each operation: what there is, what is asked, and what has to be true after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import signal
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from sbx_jupyter.engine.storage.flatten import TOO_MANY
from tests.faults.world import World, end_process
from tests.waiting import until

Ids = dict[str, str]
MARK = "sbx-fault"


@dataclass(frozen=True)
class Scenario:
    """One operation; ``points`` are the steps of it at which the engine is stopped."""

    points: tuple[str, ...]
    prepare: Callable[[World], Ids]
    act: Callable[[World, Ids], None]
    check: Callable[[World, Ids, str], None]
    """Told the step; after the next start."""


def ask(world: World, method: str, path: str, body: Any = None) -> httpx.Response | None:
    """Ask for something that the engine may not live to answer."""
    with contextlib.suppress(httpx.TransportError):
        return world.ask(method, path, body)
    return None


def nothing(world: World) -> Ids:
    return {}


def one_sandbox(world: World, **fields: Any) -> Ids:
    """A running sandbox with a file and a process."""
    sandbox = world.create(**fields)
    pid = world.run(sandbox, "echo kept > ~/file; sleep 3600 >/dev/null 2>&1 & echo $!")
    return {"sandbox": sandbox, "process": pid}


def assert_works(world: World, ids: Ids, *, process: bool) -> None:
    """Bring it back whatever it does, and find its file and maybe its process."""
    answer = world.ask("POST", f"/v2/sandboxes/{ids['sandbox']}/connect", {"timeout": 600})
    assert answer.status_code in (200, 201), answer.text
    said = world.run(ids["sandbox"], f"cat ~/file; kill -0 {ids['process']} 2>&1 && echo alive")
    assert said.startswith("kept")
    if process:
        assert said.endswith("alive")


# Upload


def with_file(world: World) -> Ids:
    """A file that has content, and a second name for it."""
    ids = one_sandbox(world)
    world.run(ids["sandbox"], "ln ~/file ~/link")
    return ids


def act_upload(world: World, ids: Ids) -> None:
    with contextlib.suppress(httpx.TransportError):
        world.upload(ids["sandbox"], "/home/user/file", b"new" * 100_000)


def check_earlier_content(world: World, ids: Ids, point: str) -> None:
    assert world.run(ids["sandbox"], "cat ~/file ~/link") == "kept\nkept"
    assert_works(world, ids, process=True)


# Create


def act_create(world: World, ids: Ids) -> None:
    ask(world, "POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"role": MARK}})


def check_create(world: World, ids: Ids, point: str) -> None:
    made = [item for item in world.listed() if item.get("metadata", {}).get("role") == MARK]
    assert len(made) == (point == "create.stored")
    for item in made:
        detail = world.get(item["sandboxID"])
        assert detail is not None
        world.sandboxes[item["sandboxID"]] = detail
        assert world.run(item["sandboxID"], "echo works") == "works"


# Kill


def act_kill(world: World, ids: Ids) -> None:
    ask(world, "DELETE", f"/sandboxes/{ids['sandbox']}")


def check_kill(world: World, ids: Ids, point: str) -> None:
    """A kill that nobody acknowledged may cost the memory, not the files."""
    if point == "kill.decided":
        assert_works(world, ids, process=True)
    elif point == "kill.ended":
        check_pause_on_disk(world, ids, point)
    else:
        assert world.get(ids["sandbox"]) is None


def check_kill_of_paused(world: World, ids: Ids, point: str) -> None:
    if point == "kill.stored":
        assert world.get(ids["sandbox"]) is None
    else:
        check_pause_on_disk(world, ids, point)


# Pause and resume


def act_pause(memory: bool) -> Callable[[World, Ids], None]:
    def act(world: World, ids: Ids) -> None:
        ask(world, "POST", f"/sandboxes/{ids['sandbox']}/pause", {"memory": memory})

    return act


def check_pause(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    frozen = detail["state"] == "paused" and detail["pauseMode"] == "full"
    if point == "pause.stored":
        assert frozen
    if frozen:
        assert world.is_frozen(ids["sandbox"])
    assert_works(world, ids, process=point in ("pause.frozen", "pause.stored"))


def check_pause_on_disk(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    assert (detail["state"], detail["pauseMode"]) == ("paused", "filesystem")
    assert_works(world, ids, process=False)


def paused(memory: bool) -> Callable[[World], Ids]:
    def prepare(world: World) -> Ids:
        ids = one_sandbox(world)
        answer = world.ask("POST", f"/sandboxes/{ids['sandbox']}/pause", {"memory": memory})
        assert answer.status_code == 204
        return ids

    return prepare


def act_connect(world: World, ids: Ids) -> None:
    ask(world, "POST", f"/v2/sandboxes/{ids['sandbox']}/connect", {"timeout": 900})


def check_resume(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    if point == "resume.stored":
        assert detail["state"] == "running"
    elif detail["state"] == "paused":
        assert detail["pauseMode"] == "full"
        assert world.is_frozen(ids["sandbox"]), "it says that it is paused and it runs"
    assert_works(world, ids, process=True)


def check_boot(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    assert detail["state"] == "paused"
    assert detail["pauseMode"] == "filesystem"
    assert_works(world, ids, process=False)


def check_connect(world: World, ids: Ids, point: str) -> None:
    assert_works(world, ids, process=True)


def act_timeout(world: World, ids: Ids) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    ids["end"] = detail["endAt"]
    ask(world, "POST", f"/sandboxes/{ids['sandbox']}/timeout", {"timeout": 3000})


def check_timeout(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    assert detail["endAt"] > ids["end"]
    assert_works(world, ids, process=True)


def act_expire(world: World, ids: Ids) -> None:
    ask(world, "POST", f"/sandboxes/{ids['sandbox']}/timeout", {"timeout": 0})


def check_expired(world: World, ids: Ids, point: str) -> None:
    until(lambda: world.get(ids["sandbox"]) is None)


def auto_pausing(world: World) -> Ids:
    return one_sandbox(world, autoPause=True)


def check_expired_and_paused(world: World, ids: Ids, point: str) -> None:
    until(lambda: (world.get(ids["sandbox"]) or {}).get("state") == "paused")
    assert_works(world, ids, process=True)


def act_lose_memory(world: World, ids: Ids) -> None:
    end_process(world.first_process(ids["sandbox"]))


# Snapshots and forks


def act_snapshot(world: World, ids: Ids) -> None:
    ask(world, "POST", f"/sandboxes/{ids['sandbox']}/snapshots", {"name": _name(ids)})


def _name(ids: Ids) -> str:
    """A name for the snapshot that no random id contains."""
    return f"of-process-{ids['process']}"


def check_snapshot(world: World, ids: Ids, point: str) -> None:
    assert_works(world, ids, process=True)
    wanted = _name(ids)
    found = [s for s in world.ask("GET", "/snapshots").json() if wanted in s["snapshotID"]]
    assert len(found) == (point == "snapshot.stored")
    if found:
        copy = world.create(templateID=wanted)
        assert world.run(copy, "cat ~/file") == "kept"
        world.ask("DELETE", f"/sandboxes/{copy}")
        until(lambda: world.get(copy) is None)
        answer = world.ask("DELETE", f"/templates/{wanted}")
        assert answer.status_code == 204, answer.text


def act_fork(world: World, ids: Ids) -> None:
    ask(world, "POST", f"/sandboxes/{ids['sandbox']}/fork", {"count": 2, "timeout": 600})


def check_fork(world: World, ids: Ids, point: str) -> None:
    assert_works(world, ids, process=True)


def with_many_layers(world: World) -> Ids:
    """A snapshot of a snapshot and so on, one short of being flattened; each changed something."""
    source = one_sandbox(world)
    world.run(source["sandbox"], "mkdir -p ~/d; echo old > ~/d/gone; echo old > ~/d/changed")
    name = f"s{source['sandbox']}"
    for index in range(TOO_MANY - 1):
        answer = world.ask("POST", f"/sandboxes/{source['sandbox']}/snapshots", {"name": name})
        assert answer.status_code == 201, answer.text
        before, source["sandbox"] = source["sandbox"], world.create(templateID=name)
        world.ask("DELETE", f"/sandboxes/{before}")
        world.run(source["sandbox"], STEPS.get(index, f"echo {index} > ~/d/{index}"))
    return {**source, "name": name}


STEPS = {
    3: "rm ~/d/gone; echo new > ~/d/changed; sudo rm /etc/motd",
    5: "mkdir ~/e; echo a > ~/e/a; ln ~/e/a ~/e/b; ln -s a ~/e/c",
    7: "rm -r ~/e; mkdir ~/e; echo anew > ~/e/d",
    9: "rm ~/d/changed; mkdir ~/d/changed; echo file > ~/d/changed/file",
}


def act_snapshot_of_many(world: World, ids: Ids) -> None:
    answer = ask(world, "POST", f"/sandboxes/{ids['sandbox']}/snapshots", {"name": ids["name"]})
    # The layers are merged after the answer, unless there is no snapshot.
    assert answer is None or answer.status_code == 201, answer.text


def check_flat(world: World, ids: Ids, point: str) -> None:
    def longest() -> int:
        return max(len(row["layers"]) for row in world.rows("builds") if row.get("layers"))

    until(lambda: longest() == TOO_MANY - 1)  # those before stay as they are
    copy = world.create(templateID=ids["name"])
    look = "cd; find d e | LC_ALL=C sort | xargs; cat e/d d/changed/file; ls /etc/motd 2>&1 | wc -w"
    wanted = world.run(ids["sandbox"], look)
    assert world.run(copy, look) == wanted
    assert "gone" not in wanted
    assert "e e/d anew file" in wanted.replace("\n", " ")
    assert world.run(copy, "test -e /etc/motd || echo gone") == "gone"
    for sandbox in (copy, ids["sandbox"]):
        world.ask("DELETE", f"/sandboxes/{sandbox}")
    until(lambda: world.ask("DELETE", f"/templates/{ids['name']}").status_code == 204)


def with_snapshot(world: World) -> Ids:
    ids = one_sandbox(world)
    act_snapshot(world, ids)
    return ids


def act_remove_template(world: World, ids: Ids) -> None:
    ask(world, "DELETE", f"/templates/{_name(ids)}")


def check_template_is_gone(world: World, ids: Ids, point: str) -> None:
    assert world.ask("DELETE", f"/templates/{_name(ids)}").status_code == 404
    assert_works(world, ids, process=True)


# Builds of templates


def act_build(world: World, ids: Ids) -> None:
    asked = ask(world, "POST", "/v3/templates", {"name": "made"})
    if asked is None:
        return
    ids |= {"template": asked.json()["templateID"], "build": asked.json()["buildID"]}
    steps = [{"type": "RUN", "args": [f"date +%N > ~/{name}"]} for name in ("one", "two")]
    body = {"fromTemplate": "base", "steps": steps, "force": True}
    ask(world, "POST", f"/v2/templates/{ids['template']}/builds/{ids['build']}", body)


def check_build(world: World, ids: Ids, point: str) -> None:
    """What was acknowledged is there: the announcement, then the build as failed or as ready."""
    if point == "build.announced":
        # It waits: a row leaves out what is as usual.
        assert any("status" not in row for row in world.rows("builds"))
        act_build(world, ids)
    path = f"/templates/{ids['template']}/builds/{ids['build']}/status"
    until(lambda: world.ask("GET", path).json()["status"] in ("ready", "error"))
    found = world.ask("GET", path).json()
    if point in ("build.announced", "build.stored"):
        assert found["status"] == "ready", found
    else:
        assert (found["status"], found["reason"]["message"]) == ("error", "the engine stopped")
        assert found["logEntries"][-1]["message"] == "the engine stopped"
        act_build(world, ids)
        path = f"/templates/{ids['template']}/builds/{ids['build']}/status"
        until(lambda: world.ask("GET", path).json()["status"] == "ready")
    made = world.create(templateID="made")
    assert world.run(made, "cat ~/one ~/two | wc -l") == "2"
    world.ask("DELETE", f"/sandboxes/{made}")
    until(lambda: world.ask("DELETE", "/templates/made").status_code == 204)


def act_import(world: World, ids: Ids) -> None:
    with contextlib.suppress(httpx.TransportError):
        world.client.put("/engine/images/tiny", content=tiny_image())


def check_import(world: World, ids: Ids, point: str) -> None:
    assert world.rows("images") == []
    answer = world.client.put("/engine/images/tiny", content=tiny_image())
    assert answer.status_code == 201, answer.text


def tiny_image() -> bytes:
    """An image of one file, as ``docker save`` writes it."""
    layer = _tar({"file": b"content"})
    settings = {"rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}
    saved = [{"Config": "config.json", "Layers": ["layer.tar"]}]
    return _tar(
        {
            "config.json": json.dumps(settings).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(saved).encode(),
        }
    )


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def with_cached_steps(world: World) -> Ids:
    """Steps that a template left, which is gone, and a template that stays."""
    for name in ("cached", "stays"):
        asked = world.ask("POST", "/v3/templates", {"name": name}).json()
        path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
        steps = [{"type": "RUN", "args": [f"echo {name} > /opt/{name}", "root"]}]
        answer = world.ask("POST", f"/v2{path}", {"fromTemplate": "base", "steps": steps})
        assert answer.status_code == 202, answer.text
        until(lambda p=path: world.ask("GET", f"{p}/status").json()["status"] == "ready", 30)
    assert world.ask("DELETE", "/templates/cached").status_code == 204
    assert world.rows("steps")
    return {}


def act_prune(world: World, ids: Ids) -> None:
    ask(world, "POST", "/engine/prune", {})


def check_pruned(world: World, ids: Ids, point: str) -> None:
    copy = world.create(templateID="stays")
    assert world.run(copy, "cat /opt/stays") == "stays"
    world.ask("DELETE", f"/sandboxes/{copy}")
    until(lambda: world.ask("DELETE", "/templates/stays").status_code == 204)
    assert world.ask("POST", "/engine/prune", {}).status_code == 200
    assert world.rows("steps") == []


# Networks and volumes


def act_network(world: World, ids: Ids) -> None:
    ask(world, "PUT", f"/sandboxes/{ids['sandbox']}/network", {"denyOut": ["203.0.113.0/24"]})


def check_network(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    assert detail["network"]["denyOut"] == ["203.0.113.0/24"]
    assert_works(world, ids, process=True)


def act_make_volume(world: World, ids: Ids) -> None:
    ask(world, "POST", "/volumes", {"name": MARK})


def check_volume_made(world: World, ids: Ids, point: str) -> None:
    found = [item for item in world.ask("GET", "/volumes").json() if item["name"] == MARK]
    assert len(found) == (point == "volume.stored")
    for item in found:
        assert world.ask("DELETE", f"/volumes/{item['volumeID']}").status_code == 204


def with_volume(world: World) -> Ids:
    return {"volume": world.ask("POST", "/volumes", {"name": MARK}).json()["volumeID"]}


def act_remove_volume(world: World, ids: Ids) -> None:
    ask(world, "DELETE", f"/volumes/{ids['volume']}")


def check_volume_gone(world: World, ids: Ids, point: str) -> None:
    assert world.ask("GET", f"/volumes/{ids['volume']}").status_code == 404


# The engine itself


def act_restart(world: World, ids: Ids) -> None:
    """A crash, and a start that crashes as well."""
    world.engine.kill()
    world.engine.launch()


def act_stop(world: World, ids: Ids) -> None:
    assert world.engine.process is not None
    world.engine.process.send_signal(signal.SIGTERM)


def act_restart_with_pool(world: World, ids: Ids) -> None:
    options = world.engine.options
    world.engine.options = ("--pool-size", "1")
    try:
        act_restart(world, ids)
    finally:
        world.engine.options = options


def check_nothing(world: World, ids: Ids, point: str) -> None:
    """What stood by and what leaks is checked for every step."""


def check_stopped(world: World, ids: Ids, point: str) -> None:
    if point == "stop.drained":
        assert_works(world, ids, process=True)
    else:
        assert world.get(ids["sandbox"]) is None


SCENARIOS = {
    "build": Scenario(
        ("build.announced", "build.started", "create.caged", "create.opened", "build.sealed",
         "build.made", "build.stored"),
        nothing, act_build, check_build,
    ),
    "import of an image": Scenario(("image.unpacked",), nothing, act_import, check_import),
    "upload over a file": Scenario(
        ("upload.collected",), with_file, act_upload, check_earlier_content
    ),
    "create": Scenario(
        ("create.drafted", "create.prepared", "create.caged", "create.opened", "create.begun",
         "create.stored"),
        nothing, act_create, check_create,
    ),
    "kill": Scenario(
        ("kill.decided", "kill.ended", "kill.stored", "kill.cleaned"),
        one_sandbox, act_kill, check_kill,
    ),
    "kill of a paused one": Scenario(
        ("kill.ended", "kill.stored"), paused(True), act_kill, check_kill_of_paused
    ),
    "pause with memory": Scenario(
        ("pause.frozen", "pause.stored"), one_sandbox, act_pause(True), check_pause
    ),
    "pause on disk": Scenario(
        ("pause.marked", "pause.ended", "pause.synced", "pause.stored"),
        one_sandbox, act_pause(False), check_pause_on_disk,
    ),
    "resume with memory": Scenario(
        ("connect.found", "resume.thawed", "resume.stored"),
        paused(True), act_connect, check_resume,
    ),
    "resume from disk": Scenario(
        ("resume.booting", "create.prepared", "create.caged", "create.opened", "resume.booted"),
        paused(False), act_connect, check_boot,
    ),
    "connect to a running one": Scenario(
        ("connect.found", "timeout.stored"), one_sandbox, act_connect, check_connect
    ),
    "timeout": Scenario(("timeout.stored",), one_sandbox, act_timeout, check_timeout),
    "end of time": Scenario(
        ("expiry.due", "kill.ended", "kill.stored"), one_sandbox, act_expire, check_expired
    ),
    "end of time with pause": Scenario(
        ("expiry.due", "pause.frozen", "pause.stored"),
        auto_pausing, act_expire, check_expired_and_paused,
    ),
    "loss of memory": Scenario(
        ("memory.dropped",), paused(True), act_lose_memory, check_pause_on_disk
    ),
    "snapshot": Scenario(
        ("snapshot.frozen", "snapshot.copied", "snapshot.thawed", "snapshot.stored"),
        one_sandbox, act_snapshot, check_snapshot,
    ),
    "fork": Scenario(("fork.copied", "fork.launched"), one_sandbox, act_fork, check_fork),
    "flattening": Scenario(
        ("flatten.begun", "flatten.copied", "flatten.stored", "merges.forgotten",
         "flatten.cleaned"),
        with_many_layers,
        act_snapshot_of_many,
        check_flat,
    ),
    "removal of a template": Scenario(
        ("template.forgotten", "layers.unused", "layers.removed"),
        with_snapshot, act_remove_template, check_template_is_gone,
    ),
    "prune": Scenario(
        ("prune.forgotten", "layers.unused", "layers.removed"),
        with_cached_steps, act_prune, check_pruned,
    ),
    "network": Scenario(
        ("network.stored", "network.applied"), one_sandbox, act_network, check_network
    ),
    "volume": Scenario(
        ("volume.made", "volume.stored"), nothing, act_make_volume, check_volume_made
    ),
    "removal of a volume": Scenario(
        ("volume.forgotten", "volume.moved"), with_volume, act_remove_volume, check_volume_gone
    ),
    "recovery": Scenario(
        ("recovery.locked", "recovery.fenced", "recovery.adopting", "recovery.adopted",
         "recovery.collected", "recovery.done"),
        nothing, act_restart, check_nothing,
    ),
    "pool": Scenario(("pool.made",), nothing, act_restart_with_pool, check_nothing),
    "stop": Scenario(("stop.drained", "stop.ended"), one_sandbox, act_stop, check_stopped),
}  # fmt: skip
"""By operation."""
