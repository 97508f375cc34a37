"""How many contexts there may be."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest_asyncio
import tornado.httpserver
import tornado.testing

from sbx_jupyter.interpreter import contexts, server
from tests.waiting import PATIENCE


class NoKernel:
    """A kernel without a process."""

    def __init__(self) -> None:
        self.died = asyncio.Event()

    @classmethod
    async def start(cls, *_: object) -> NoKernel:
        return cls()

    async def aclose(self) -> None:
        self.died.set()


@pytest_asyncio.fixture
async def http(monkeypatch):
    monkeypatch.setattr(contexts, "Kernel", NoKernel)
    nothing = cast("Any", None)
    found = contexts.Contexts(nothing, nothing, "/")
    listener, port = tornado.testing.bind_unused_port()
    serving = tornado.httpserver.HTTPServer(server._application(found))
    serving.add_socket(listener)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE
    ) as client:
        yield client
    serving.stop()


async def test_contexts_are_refused_when_there_are_too_many(http):
    before = len((await http.get("/contexts")).json())
    asked = contexts.MAX_CONTEXTS + 5
    answers = await asyncio.gather(*(http.post("/contexts", json={}) for _ in range(asked)))

    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {429}
    assert len(refused) == 5
    assert "remove one first" in refused[0].text
    assert len((await http.get("/contexts")).json()) == before + contexts.MAX_CONTEXTS

    made = next(answer for answer in answers if answer.status_code == 200).json()
    await http.delete(f"/contexts/{made['id']}")
    assert (await http.post("/contexts", json={})).status_code == 200
