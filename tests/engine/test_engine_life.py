"""Create, get, list, kill: with real sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import select
import shutil
import signal
from pathlib import Path

import pytest

from sbx_jupyter.engine.engine import Engine, EngineConfig, SandboxFilter
from sbx_jupyter.engine.live.sandbox import Sandbox
from sbx_jupyter.engine.sandboxes.idempotency import KeyReusedError
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.placement import Plan
from sbx_jupyter.engine.sandboxes.pool import Pool
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.platform import NetworkConfig
from sbx_jupyter.protocol.runtime import PROXY_PORT
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, is_known, messages, request, run, start
from tests.waiting import PATIENCE, async_until


async def test_a_sandbox_runs_commands_with_its_environment(engine: Engine):
    row = await create(engine, envVars={"MINE": "1", "E2B_SANDBOX": "no"})

    out = await run(
        engine,
        row.sandbox_id,
        "echo $MINE $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID $E2B_EVENTS_ADDRESS; whoami",
    )

    assert out.splitlines() == [
        f"1 true {row.sandbox_id} {row.template_id} http://192.0.2.1",
        "user",
    ]


async def test_a_new_sandbox_says_what_was_asked_for(engine: Engine):
    before = dt.datetime.now(dt.UTC)

    row = await create(
        engine,
        timeout=100,
        metadata={"a": "b"},
        autoPause=True,
        autoResume={"enabled": True},
        network={"allowPublicTraffic": False},
        allow_internet_access=False,
    )

    detail = engine.sandboxes.get(row.sandbox_id).to_detail("example.com")
    assert detail.sandbox_id.startswith("i")
    assert detail.state == "running"
    assert detail.alias == "base"
    assert detail.metadata == {"a": "b"}
    assert detail.lifecycle is not None
    assert detail.lifecycle.auto_resume
    assert detail.lifecycle.on_timeout == "pause"
    assert detail.allow_internet_access is False
    assert detail.network is not None
    assert detail.pause_mode is None
    assert detail.started_at >= before
    assert detail.end_at - detail.started_at == dt.timedelta(seconds=100)
    assert row.traffic_token
    assert detail.envd_access_token == row.access_token
    assert messages(engine, row.sandbox_id) == ["Sandbox started"]


async def test_version_one_gives_a_token_only_when_secured(engine: Engine):
    is_open = await engine.sandboxes.create(request(), version=1)
    secured = await engine.sandboxes.create(request(secure=True), version=1)

    assert engine.sandboxes.access_token(is_open.sandbox_id) is None
    assert engine.sandboxes.access_token(secured.sandbox_id)
    assert is_open.end_at - is_open.started_at == dt.timedelta(seconds=15)


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("nosuch", NotFoundError),
        ("mcp-gateway", NotFoundError),
        ("base:nosuch", NotFoundError),
        ("other/base", NotFoundError),
        ("a b", InvalidArgumentError),
    ],
)
async def test_an_unknown_template_is_refused(
    engine: Engine, template: str, error: type[Exception]
):
    with pytest.raises(error):
        await create(engine, templateID=template)

    assert engine.sandboxes.rows() == []


@pytest.mark.parametrize(
    "template", ["base", "base:default", "local/base", "BASE", "code-interpreter-v1"]
)
async def test_the_stock_templates_are_there(engine: Engine, template: str):
    row = await create(engine, templateID=template)

    assert row.alias == template.lower().removeprefix("local/").removesuffix(":default")


async def test_a_killed_sandbox_leaves_nothing_but_its_log(engine: Engine, data_dir: Path):
    row = await create(engine)
    await run(engine, row.sandbox_id, "dd if=/dev/zero of=/tmp/x bs=1M count=1; mkdir -p /a/b")
    await start(engine, row.sandbox_id, "sleep 1000")
    pid = (await engine.sandboxes.live(row.sandbox_id)).cage.pid

    await engine.sandboxes.kill(row.sandbox_id)

    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(NotFoundError, match="doesn't exist or you don't have access"):
        engine.sandboxes.get(row.sandbox_id)
    with pytest.raises(NotFoundError, match="The sandbox was not found"):
        await engine.sandboxes.live(row.sandbox_id)
    with pytest.raises(NotFoundError):
        await engine.sandboxes.kill(row.sandbox_id)
    assert messages(engine, row.sandbox_id) == ["Sandbox started", "Sandbox killed"]
    await async_until(
        lambda: not os.listdir(data_dir / "sandboxes") and not os.listdir(data_dir / "run")
    )


async def test_of_many_kills_at_once_one_succeeds(engine: Engine):
    row = await create(engine)

    results = await asyncio.gather(
        *(engine.sandboxes.kill(row.sandbox_id) for _ in range(5)), return_exceptions=True
    )

    assert (
        sorted(type(result).__name__ for result in results) == ["NoneType"] + ["NotFoundError"] * 4
    )


async def test_a_kill_during_creation_waits_and_leaves_nothing(engine: Engine, data_dir: Path):
    making = asyncio.create_task(create(engine))
    await async_until(lambda: len(engine.sandboxes.rows()) == 1)
    sandbox_id = engine.sandboxes.rows()[0].sandbox_id
    assert engine.sandboxes.rows()[0].state is State.CREATING
    with pytest.raises(NotFoundError):
        engine.sandboxes.get(sandbox_id)

    await engine.sandboxes.kill(sandbox_id)

    assert (await making).sandbox_id == sandbox_id
    assert not is_known(engine, sandbox_id)
    await async_until(lambda: not os.listdir(data_dir / "sandboxes"))


async def test_a_caller_that_goes_away_does_not_break_the_creation(engine: Engine):
    making = asyncio.create_task(create(engine))
    await async_until(lambda: len(engine.sandboxes.rows()) == 1)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)

    await async_until(lambda: engine.sandboxes.rows()[0].state is State.RUNNING)

    assert await run(engine, engine.sandboxes.rows()[0].sandbox_id, "echo ok") == "ok"


async def test_the_limit_of_concurrent_sandboxes_holds_for_creates_at_once(make_engine: MakeEngine):
    engine = await make_engine(max_sandboxes=3)

    results = await asyncio.gather(*(create(engine) for _ in range(6)), return_exceptions=True)

    errors = [result for result in results if isinstance(result, Exception)]
    assert len(errors) == 3
    assert all(isinstance(error, ResourceExhaustedError) for error in errors)
    assert "maximum number of concurrent sandboxes" in str(errors[0])
    await engine.sandboxes.kill(engine.sandboxes.rows()[0].sandbox_id)
    assert (await create(engine)).state is State.RUNNING


async def test_lists_filter_by_template_state_and_metadata(engine: Engine):
    base = await create(engine, metadata={"k": "1"})
    interpreter = await create(engine, templateID="code-interpreter-v1", metadata={"k": "2"})
    await engine.sandboxes.pause(interpreter.sandbox_id)

    def listed(**wanted) -> list[str]:
        return [row.sandbox_id for row in engine.sandboxes.list(SandboxFilter(**wanted)).sandboxes]

    assert listed() == [interpreter.sandbox_id, base.sandbox_id]
    assert listed(order="asc") == [base.sandbox_id, interpreter.sandbox_id]
    assert listed(template="base") == [base.sandbox_id]
    assert listed(template=interpreter.template_id) == [interpreter.sandbox_id]
    assert listed(template="nosuch") == []
    assert listed(states=frozenset({"paused"})) == [interpreter.sandbox_id]
    assert listed(metadata={"k": "1"}) == [base.sandbox_id]
    assert engine.sandboxes.list(SandboxFilter()).total_running == 1
    with pytest.raises(InvalidArgumentError):
        engine.sandboxes.list(SandboxFilter(template="base:default"))


async def test_stopping_does_not_wait_for_files_and_the_next_engine_removes_them(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
):
    engine = await make_engine()
    row = await create(engine)
    folder = engine.config.data_dir / "sandboxes"

    async def remove_forever(trees: object, directory: Path) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(type(engine.fence.tree_operations), "remove", remove_forever)
        async with asyncio.timeout(PATIENCE):
            await engine.stop(kill_sandboxes=True)
    assert any(path.name.startswith(row.sandbox_id) for path in folder.iterdir())

    await make_engine()

    await async_until(
        lambda: not any(path.name.startswith(row.sandbox_id) for path in folder.iterdir())
    )


async def test_the_same_request_with_the_same_key_makes_one_sandbox(make_engine: MakeEngine):
    engine = await make_engine()
    first = await engine.sandboxes.create(request(metadata={"a": "1"}), idempotency_key="k1")

    again = await engine.sandboxes.create(request(metadata={"a": "1"}), idempotency_key="k1")
    with pytest.raises(KeyReusedError):
        await engine.sandboxes.create(request(metadata={"a": "2"}), idempotency_key="k1")
    await engine.stop(kill_sandboxes=False)
    engine = await make_engine()
    after_restart = await engine.sandboxes.create(
        request(metadata={"a": "1"}), idempotency_key="k1"
    )

    assert first.sandbox_id == again.sandbox_id == after_restart.sandbox_id
    await engine.sandboxes.kill(first.sandbox_id)
    fresh = await engine.sandboxes.create(request(metadata={"a": "1"}), idempotency_key="k1")
    assert fresh.sandbox_id != first.sandbox_id


async def test_a_key_whose_request_still_runs_aborts(engine: Engine):
    results = await asyncio.gather(
        *(engine.sandboxes.create(request(), idempotency_key="k") for _ in range(3)),
        return_exceptions=True,
    )

    assert sum(isinstance(result, AbortedError) for result in results) == 2
    assert len(engine.sandboxes.rows()) == 1


async def test_a_network_update_is_stored_and_told(engine: Engine):
    told: list[str] = []

    async def note(row: SandboxRow, sandbox: Sandbox) -> None:
        told.append(row.sandbox_id)

    engine.hooks.network_changed.append(note)
    row = await create(engine, network={"allowPublicTraffic": False, "denyOut": ["1.1.1.1"]})

    await engine.sandboxes.set_network(row.sandbox_id, NetworkConfig(allow_out=["8.8.8.8"]))

    network = engine.sandboxes.get(row.sandbox_id).to_detail().network
    assert network == NetworkConfig(allow_public_traffic=False, allow_out=["8.8.8.8"])
    assert told == [row.sandbox_id]
    with pytest.raises(InvalidArgumentError):
        await engine.sandboxes.set_network(row.sandbox_id, NetworkConfig(allow_out=["x.com"]))


async def test_the_password_of_an_egress_proxy_is_never_given_back(engine: Engine):
    proxy = {"address": "p:1", "username": "u", "password": "secret"}
    row = await create(engine, network={"egressProxy": proxy})

    network = engine.sandboxes.get(row.sandbox_id).to_detail().network

    assert network is not None
    assert network.egress_proxy is not None
    assert network.egress_proxy.username == "u"
    assert network.egress_proxy.password is None
    assert engine.sandboxes.get(row.sandbox_id).network.egress_proxy.password == "secret"  # type: ignore[union-attr]


async def test_a_signature_finds_its_sandbox(engine: Engine):
    rows = [await create(engine) for _ in range(3)]

    found = engine.sandboxes.find_by_signature(lambda token: token == rows[1].access_token)

    assert found == rows[1].sandbox_id
    assert engine.sandboxes.find_by_signature(lambda token: False) is None


async def test_metrics_are_sampled_and_kept_over_restarts(make_engine: MakeEngine):
    engine = await make_engine(metrics_interval=0.1)
    row = await create(engine)
    await async_until(lambda: len(engine.observations.history.between(row.sandbox_id)) >= 3)
    latest = engine.observations.history.latest(row.sandbox_id)

    await engine.stop(kill_sandboxes=False)
    engine = await make_engine(metrics_interval=100)

    kept = engine.observations.history.between(row.sandbox_id)
    assert len(kept) >= 3
    assert latest is not None
    assert latest.cpu_count == row.cpu_count
    assert latest.mem_used > 0
    assert latest.disk_total > 0
    await engine.sandboxes.kill(row.sandbox_id)
    assert engine.observations.history.between(row.sandbox_id) == []


async def test_spawns_of_a_template_are_counted(make_engine: MakeEngine):
    engine = await make_engine()
    await asyncio.gather(*(create(engine) for _ in range(4)))

    await engine.stop(kill_sandboxes=True)

    engine = await make_engine()
    (base,) = [row for row in engine.store.templates if row.aliases == ("base",)]
    assert base.spawn_count == 4


async def test_a_second_engine_on_the_directory_is_refused(engine: Engine, data_dir: Path):
    with pytest.raises(FailedPreconditionError, match=str(os.getpid())):
        await Engine(EngineConfig(data_dir)).start()

    assert (await create(engine)).state is State.RUNNING


async def test_an_engine_that_is_stopped_says_so(make_engine: MakeEngine):
    engine = await make_engine()
    await engine.stop(kill_sandboxes=True)

    with pytest.raises(UnavailableError):
        engine.sandboxes.get("i")


async def test_ready_sandboxes_are_given_out_once_and_replaced(make_engine: MakeEngine):
    engine = await make_engine(pool_size=2)
    await engine.sandboxes.pool.wait_filled()

    rows = [await create(engine) for _ in range(6)]

    assert len({row.sandbox_id for row in rows}) == 6
    for row in rows:
        script = "hostname; ls -A /home/user/mark; touch /home/user/mark"
        assert (await run(engine, row.sandbox_id, script)).splitlines() == [
            row.sandbox_id,
            "ls: cannot access '/home/user/mark': No such file or directory",
        ]
    await engine.sandboxes.pool.wait_filled()


async def test_a_ready_sandbox_has_the_port_of_its_proxy(make_engine: MakeEngine):
    engine = await make_engine(pool_size=1)
    await engine.sandboxes.pool.wait_filled()
    (ready,) = engine._running().pool._ready
    assert ready.placed.sandbox is not None
    (await ready.placed.sandbox._ports.connect(PROXY_PORT)).close()

    row = await create(engine, network={"denyOut": ["8.8.8.0/24"]})

    assert row.sandbox_id == ready.sandbox_id
    script = "curl -so /dev/null -w '%{http_code}' http://8.8.8.8"
    assert await run(engine, row.sandbox_id, script) == "403"


async def test_a_ready_sandbox_that_cannot_be_prepared_is_removed(
    make_engine: MakeEngine, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sbx_jupyter.engine.sandboxes.pool._RETRY_DELAY", 0)
    engine = await make_engine()
    failed: list[str] = []
    is_waiting = asyncio.Event()

    async def prepare(sandbox: Sandbox) -> None:
        if len(failed) < 2:
            failed.append(sandbox.sandbox_id)
            raise UnavailableError("the agent does not answer")
        is_waiting.set()
        await asyncio.Event().wait()

    placement = engine._running().context.placement
    pool = Pool(placement, engine.config.default_limits, 1, [prepare])
    pool.start()
    await asyncio.wait_for(is_waiting.wait(), PATIENCE)
    assert not any((data_dir / "sandboxes" / name).exists() for name in failed)
    await pool.stop()

    assert list((data_dir / "sandboxes").iterdir()) == []


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("slirp4netns") is None, reason="needs root and slirp4netns"
)
async def test_a_full_network_that_was_killed_while_it_started_is_started_again(
    make_engine: MakeEngine, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tests.helped.USER_ID", None)  # the other path would reach no helper
    engine = await make_engine(network="full")
    monkeypatch.setattr("sbx_jupyter.engine.egress.full_network._RESTART_DELAY", 0.05)
    program = tmp_path / "slirp4netns"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        row = await create(engine)
    await async_until(lambda: "only the proxy" in "".join(messages(engine, row.sandbox_id)))

    await async_until((data_dir / "networks" / row.sandbox_id).exists)
    await async_until(lambda: "There is a full network again" in messages(engine, row.sandbox_id))
    assert sum("only the proxy" in text for text in messages(engine, row.sandbox_id)) == 1


async def test_a_creation_that_is_cancelled_at_any_time_leaves_nothing(
    make_engine: MakeEngine, data_dir: Path
):
    engine = await make_engine()
    placement = engine._running().context.placement
    limits = engine.config.default_limits
    for tenths in range(1, 120, 3):  # milliseconds; a creation takes about ten
        task = asyncio.create_task(placement.place(Plan(f"i{tenths:020d}", limits=limits)))
        await asyncio.sleep(tenths / 10_000)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=30)
        assert done, tenths
        if not task.cancelled():  # it was quicker
            await placement.end(task.result())
            await placement.remove(f"i{tenths:020d}")

    assert list((data_dir / "sandboxes").iterdir()) == []
    zygote = engine._running().fence.zygote_pid
    assert zygote is not None
    await async_until(lambda: _children_but_holders(zygote) == [])


def _children_but_holders(zygote: int) -> list[str]:
    """The names of a zygote's children, without the process that holds the ids of sandboxes."""
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    names: list[str] = []
    for child in children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            names.append(Path(f"/proc/{child}/comm").read_text().strip())
    return [name for name in names if name != "sbx-id-holder"]


async def test_a_dead_ready_sandbox_is_not_given_out(make_engine: MakeEngine):
    engine = await make_engine(pool_size=1)
    await engine.sandboxes.pool.wait_filled()
    components = engine._running()
    ready = components.pool._ready[0]
    await ready.placed.cage.kill()
    await async_until(lambda: ready.placed.sandbox.closed.is_set())  # type: ignore[union-attr]

    row = await create(engine)

    assert row.sandbox_id != ready.sandbox_id
    assert await run(engine, row.sandbox_id, "echo ok") == "ok"


async def test_a_ready_sandbox_that_dies_while_it_is_given_out_leaves_no_row(
    make_engine: MakeEngine,
):
    engine = await make_engine(pool_size=1)
    await engine.sandboxes.pool.wait_filled()
    cage = engine._running().pool._ready[0].placed.cage
    signal.pidfd_send_signal(cage.pidfd, signal.SIGKILL)
    select.select([cage.pidfd], [], [])  # blocks the loop, which hears of it after the create

    with pytest.raises(UnavailableError):
        await create(engine)

    assert not list(engine.store.sandboxes)
    assert not list(engine.sandboxes.rows())


async def test_a_ready_sandbox_has_run_a_program_and_keeps_nothing_of_it(make_engine: MakeEngine):
    engine = await make_engine(pool_size=1)
    await engine.sandboxes.pool.wait_filled()
    sandbox = engine._running().pool._ready[0].placed.sandbox
    assert sandbox is not None

    hello = (await sandbox.call(ops.HELLO)).body

    assert hello["processes"] == []
    assert int(await run(engine, (await create(engine)).sandbox_id, "echo $$")) > 2


async def test_other_limits_than_the_default_come_from_the_template(make_engine: MakeEngine):
    engine = await make_engine(pool_size=1)

    row = await create(engine)

    build = engine.store.builds.get(row.build_id)
    assert build is not None
    assert (row.cpu_count, row.memory_mb) == (build.cpu_count, build.memory_mb) == (2, 1024)
