"""Kernels that start in sandboxes which are ready for them, and those that cannot start at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import tornado.httpserver
import tornado.netutil
import tornado.web

from sbx_jupyter.client import ConnectionConfig
from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.errors import NotFoundError, UnavailableError
from sbx_jupyter.kernel.pool import READY_NAME, ReadySandboxes
from sbx_jupyter.kernel.sandbox import KernelSandbox, Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from tests.engine_process import EngineProcess

T = TypeVar("T")


async def on_portal(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(Portal.current().start(work))


def config_of(engine: EngineProcess) -> ConnectionConfig:
    return ConnectionConfig(api_url=engine.url, api_key=engine.key, sandbox_url=engine.url)


async def names(config: ConnectionConfig) -> list[str]:
    async with PlatformClient(config) as platform:
        return sorted([(each.metadata or {}).get("name", "") async for each in platform.list()])


@pytest.fixture
async def ready(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ReadySandboxes]:
    monkeypatch.setattr("sbx_jupyter.kernel.pool._DELAY", 0)
    pool = ReadySandboxes()
    yield pool
    await on_portal(pool.aclose())


async def refill(pool: ReadySandboxes, place: Place) -> int:
    pool.refill(place)
    return await pool.filled()


@pytest.mark.long
async def test_each_ready_sandbox_serves_one_kernel(
    shared_engine: EngineProcess, ready: ReadySandboxes
):
    config = config_of(shared_engine)
    place = Place(config, "code-interpreter-v1")
    assert await on_portal(refill(ready, place)) == 1
    assert READY_NAME in await names(config)

    taken = await on_portal(ready.take(place, "first"))
    assert READY_NAME not in await names(config)
    # Otherwise the panel would leave it out.
    info = await on_portal(taken.sandbox.info())
    assert info.metadata == {"name": "first"}
    assert await on_portal(refill(ready, place)) == 1
    other = await on_portal(ready.take(place, "second"))
    assert taken.sandbox.sandbox_id != other.sandbox.sandbox_id
    assert {"first", "second"} <= set(await names(config))

    for each in (taken, other):
        await on_portal(each.aclose())
    assert not {"first", "second", READY_NAME} & set(await names(config))


async def test_what_is_ready_ends_with_the_process_that_keeps_it(
    shared_engine: EngineProcess, ready: ReadySandboxes
):
    config = config_of(shared_engine)
    assert await on_portal(refill(ready, Place(config, "code-interpreter-v1"))) == 1

    Portal.current().close()

    assert READY_NAME not in await names(config)


async def test_a_ready_sandbox_that_has_ended_is_replaced(
    shared_engine: EngineProcess, ready: ReadySandboxes
):
    config = config_of(shared_engine)
    place = Place(config, "code-interpreter-v1")
    await on_portal(refill(ready, place))
    async with PlatformClient(config) as platform:
        async for each in platform.list(metadata={"name": READY_NAME}):
            await platform.kill(each.sandbox_id)

    taken = await on_portal(ready.take(place, "kernel anew"))

    assert "kernel anew" in await names(config)
    await on_portal(taken.aclose())


async def test_when_none_can_be_made_ready_nothing_is_left_over(
    shared_engine: EngineProcess, ready: ReadySandboxes
):
    place = Place(config_of(shared_engine), "no-such-template")

    assert await on_portal(refill(ready, place)) == 0
    with pytest.raises(NotFoundError):
        await on_portal(ready.take(place, "kernel of nothing"))


async def test_where_sandboxes_have_no_ports_nothing_is_created():
    asked: list[str] = []

    class Deployment(tornado.web.RequestHandler):
        """Answers as an engine of that tier does, and notes what else is asked of it."""

        def prepare(self) -> None:
            asked.append(f"{self.request.method} {self.request.path}")
            self.finish({"isolation": {"tier": "landlock"}})

    server = tornado.httpserver.HTTPServer(tornado.web.Application([(".*", Deployment)]))
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    config = ConnectionConfig(
        api_url=f"http://127.0.0.1:{sockets[0].getsockname()[1]}", api_key="key"
    )

    with pytest.raises(UnavailableError, match="have no ports"):
        await on_portal(KernelSandbox.create(Place(config, "code-interpreter-v1"), {}))
    with pytest.raises(UnavailableError, match="have no ports"):
        await on_portal(KernelSandbox.connect(config, "some-sandbox"))

    assert set(asked) == {"GET /engine/info"}
    server.stop()
    await server.close_all_connections()
