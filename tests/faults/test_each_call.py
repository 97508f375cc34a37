"""Calls of a whole engine that change files fail, one at a time: the engine is killed, or goes on.

``SBX_EACH_CALL=1`` lets each call of each operation fail in each way, ``SBX_EACH_CALL=20`` every
twentieth; without it, each operation has one failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine_process import EngineProcess
from tests.failing_calls import FailingCalls, Failure, build_library
from tests.faults.conftest import made_world
from tests.faults.scenarios import (
    MARK,
    Ids,
    ask,
    assert_works,
    nothing,
    one_sandbox,
    paused,
    tiny_image,
    with_volume,
)
from tests.faults.witnesses import Witnesses
from tests.faults.world import World
from tests.waiting import until

STEP = int(os.environ.get("SBX_EACH_CALL", "0"))
FAILURES = list(Failure)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> FailingCalls:
    folder = tmp_path_factory.mktemp("calls")
    return FailingCalls(build_library(folder), folder / "control")


@pytest.fixture(scope="module")
def world(calls: FailingCalls) -> Iterator[World]:
    def engine(data_dir: Path, *options: str, environment: dict[str, str]) -> EngineProcess:
        preloaded = environment | calls.environment
        return EngineProcess(data_dir, options=options, environment=preloaded)

    with made_world(start=engine) as made:
        yield made


@dataclass
class Attempt:
    """What was asked, and what came back."""

    world: World
    ids: Ids
    answers: list[httpx.Response] = field(default_factory=list[httpx.Response])

    def ask(self, method: str, path: str, body: Any = None) -> None:
        answer = ask(self.world, method, path, body)
        if answer is not None:
            self.answers.append(answer)

    @property
    def is_acknowledged(self) -> bool:
        return bool(self.answers) and self.answers[-1].is_success

    @property
    def path(self) -> str:
        """Of the sandbox."""
        return f"/sandboxes/{self.ids['sandbox']}"

    def check_message(self, failure: Failure) -> None:
        """A refusal is a sentence, without a traceback, and says it when there is no space."""
        for answer in self.answers:
            if not answer.is_success:
                message = answer.json()["message"]
                assert message
                assert "Traceback" not in message
                if failure is Failure.NO_SPACE:
                    assert "no space left" in message.lower(), answer.text
                    assert answer.status_code in (429, 507), answer.text


@dataclass(frozen=True)
class Operation:
    prepare: Callable[[World], Ids]
    act: Callable[[Attempt], None]
    check: Callable[[Attempt], None]


def check_sandbox(attempt: Attempt) -> None:
    assert_works(attempt.world, attempt.ids, process=False)


def act_create(attempt: Attempt) -> None:
    body = {"templateID": "base", "metadata": {"role": MARK}}
    attempt.ask("POST", "/v2/sandboxes", body)


def check_create(attempt: Attempt) -> None:
    world = attempt.world
    made = [item for item in world.listed() if item.get("metadata", {}).get("role") == MARK]
    assert len(made) <= 1
    assert made or not attempt.is_acknowledged
    check_each(world, [item["sandboxID"] for item in made])


def check_each(world: World, sandbox_ids: list[str]) -> None:
    for sandbox_id in sandbox_ids:
        detail = world.get(sandbox_id)
        assert detail is not None
        world.sandboxes[sandbox_id] = detail
        assert world.run(sandbox_id, "echo works") == "works"


def check_kill(attempt: Attempt) -> None:
    if attempt.world.get(attempt.ids["sandbox"]) is not None:
        assert not attempt.is_acknowledged
        check_sandbox(attempt)


def check_snapshot(attempt: Attempt) -> None:
    check_sandbox(attempt)
    world = attempt.world
    found = [s for s in world.ask("GET", "/snapshots").json() if MARK in s["snapshotID"]]
    assert len(found) <= 1
    assert found or not attempt.is_acknowledged
    if found:
        copy = world.create(templateID=MARK)
        assert world.run(copy, "cat ~/file") == "kept"
        assert world.ask("DELETE", f"/sandboxes/{copy}").status_code == 204
        until(lambda: world.ask("DELETE", f"/templates/{MARK}").status_code == 204)


def check_fork(attempt: Attempt) -> None:
    check_sandbox(attempt)
    known = {attempt.ids["sandbox"], *Witnesses.of(attempt.world).sandbox_ids}
    check_each(
        attempt.world,
        [s["sandboxID"] for s in attempt.world.listed() if s["sandboxID"] not in known],
    )


def check_volume(attempt: Attempt) -> None:
    world = attempt.world
    found = [item for item in world.ask("GET", "/volumes").json() if item["name"] == MARK]
    assert len(found) <= 1
    assert found or not attempt.is_acknowledged
    for item in found:
        assert world.ask("DELETE", f"/volumes/{item['volumeID']}").status_code == 204


def check_volume_removed(attempt: Attempt) -> None:
    path = f"/volumes/{attempt.ids['volume']}"
    if attempt.world.ask("GET", path).status_code == 200:
        assert not attempt.is_acknowledged
        assert attempt.world.ask("DELETE", path).status_code == 204


def check_secret(attempt: Attempt) -> None:
    found = [item for item in attempt.world.ask("GET", "/secrets").json() if item["name"] == MARK]
    assert len(found) <= 1
    assert found or not attempt.is_acknowledged
    if found:
        assert attempt.world.ask("DELETE", f"/secrets/{MARK}").is_success


def act_import(attempt: Attempt) -> None:
    try:
        answer = attempt.world.client.put("/engine/images/tiny", content=tiny_image())
    except httpx.TransportError:
        return
    attempt.answers.append(answer)


def check_import(attempt: Attempt) -> None:
    """One that was refused is imported again: what it left behind is no obstacle."""
    assert attempt.world.rows("images") or not attempt.is_acknowledged
    attempt.answers.clear()
    act_import(attempt)
    assert attempt.is_acknowledged


def act_build(attempt: Attempt) -> None:
    attempt.ask("POST", "/v3/templates", {"name": MARK})
    if not attempt.is_acknowledged:
        return
    made = attempt.answers[-1].json()
    path = f"/templates/{made['templateID']}/builds/{made['buildID']}"
    attempt.ids["build"] = path
    step = {"type": "RUN", "args": ["echo built > /opt/file", "root"]}
    attempt.ask("POST", f"/v2{path}", {"fromTemplate": "base", "steps": [step], "force": True})
    if not attempt.is_acknowledged:
        return

    def is_over() -> bool:
        answer = ask(attempt.world, "GET", f"{path}/status")
        return answer is None or answer.json()["status"] in ("ready", "error")

    until(is_over)


def check_build(attempt: Attempt) -> None:
    world = attempt.world
    if "build" in attempt.ids:
        answer = world.ask("GET", f"{attempt.ids['build']}/status")
        assert answer.status_code == 200, "an announced build is gone"
        if answer.json()["status"] == "ready":
            copy = world.create(templateID=MARK)
            assert world.run(copy, "cat /opt/file") == "built"
            assert world.ask("DELETE", f"/sandboxes/{copy}").status_code == 204
    until(lambda: world.ask("DELETE", f"/templates/{MARK}").status_code in (204, 404))
    assert world.ask("POST", "/engine/prune", {}).status_code == 200


OPERATIONS = {
    "create": Operation(nothing, act_create, check_create),
    "kill": Operation(one_sandbox, lambda a: a.ask("DELETE", a.path), check_kill),
    "pause with memory": Operation(
        one_sandbox, lambda a: a.ask("POST", f"{a.path}/pause", {"memory": True}), check_sandbox
    ),
    "pause on disk": Operation(
        one_sandbox, lambda a: a.ask("POST", f"{a.path}/pause", {"memory": False}), check_sandbox
    ),
    "resume from disk": Operation(
        paused(False), lambda a: a.ask("POST", f"/v2{a.path}/connect", {"timeout": 60}),
        check_sandbox,
    ),
    "snapshot": Operation(
        one_sandbox, lambda a: a.ask("POST", f"{a.path}/snapshots", {"name": MARK}), check_snapshot
    ),
    "fork": Operation(
        one_sandbox, lambda a: a.ask("POST", f"{a.path}/fork", {"count": 2, "timeout": 600}),
        check_fork,
    ),
    "volume": Operation(
        nothing, lambda a: a.ask("POST", "/volumes", {"name": MARK}), check_volume
    ),
    "removal of a volume": Operation(
        with_volume, lambda a: a.ask("DELETE", f"/volumes/{a.ids['volume']}"), check_volume_removed
    ),
    "secret": Operation(
        nothing, lambda a: a.ask("POST", "/secrets", {"name": MARK, "value": "x"}), check_secret
    ),
    "import of an image": Operation(nothing, act_import, check_import),
    "build": Operation(nothing, act_build, check_build),
}  # fmt: skip


def attempt(
    world: World, calls: FailingCalls, operation: Operation, failure: Failure, number: int
) -> None:
    """Let one call of an operation fail, and look at everything; 0 only counts."""
    witnesses = Witnesses.of(world)
    made = Attempt(world, operation.prepare(world))
    calls.arm(world.engine.data_dir, failure, number, world.engine.pid)
    operation.act(made)
    counted = calls.count
    calls.disarm()
    try:
        made.check_message(failure)
        process = world.engine.process
        assert process is not None
        is_killed = failure in (Failure.KILLED, Failure.TORN)
        if is_killed and calls.hit:
            world.wait_death()
            world.start()
        assert process.poll() is None or is_killed, "the engine ended"
        operation.check(made)
        witnesses.assert_unharmed()
        world.kill_all(keep=witnesses.sandbox_ids)
        world.assert_no_leak()
    except BaseException as error:
        told = [f"{each.status_code} {each.text[:300]}" for each in made.answers]
        error.add_note(f"{failure.name} at call {number} of {counted}: {calls.hit}; {told}")
        raise


@pytest.mark.timeout(300 if STEP == 0 else 7200)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_failed_call_loses_nothing_and_leaves_nothing(
    world: World, calls: FailingCalls, name: str
):
    operation = OPERATIONS[name]
    attempt(world, calls, operation, Failure.BAD_DISK, 0)
    count = calls.count
    assert count > 0
    place = list(OPERATIONS).index(name)
    if STEP == 0:
        failure = FAILURES[place % len(FAILURES)]
        attempt(world, calls, operation, failure, 1 + (place * 7) % count)
        return
    for failure in FAILURES:
        for number in range(1 + place % STEP, count + 1, STEP):
            attempt(world, calls, operation, failure, number)
