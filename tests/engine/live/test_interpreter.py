"""The code interpreter of a sandbox, as its engine starts and tells it."""

from __future__ import annotations

import json

import pytest

from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from tests.engine.live.running import run

ADDRESS = "http://127.0.0.1:49999"


async def ask(sandbox, path, body):
    """A request from inside the sandbox."""
    heard = await run(sandbox, f"curl -sS {ADDRESS}{path} -d '{json.dumps(body)}'")
    return heard.stdout.decode()


async def value_of(sandbox, name, **context):
    code = f'import os; os.environ.get("{name}")'
    said = await ask(sandbox, "/execute", {"code": code, **context})
    events = [json.loads(line) for line in said.splitlines()]
    return next((event["text"] for event in events if event["type"] == "result"), None)


async def test_where_sandboxes_share_ports_each_interpreter_has_its_own(sandbox):
    sandbox._interpreter.shares_ports = True
    with pytest.raises(UnavailableError, match="port is not open"):
        await sandbox.connect_port(INTERPRETER_PORT)

    await sandbox.start_interpreter()

    with await sandbox.connect_port(INTERPRETER_PORT) as connection:
        assert connection.getpeername()[1] not in (0, INTERPRETER_PORT)
    sandbox._interpreter.shares_ports = False
    with pytest.raises(UnavailableError):  # of which another sandbox would have been asked
        await sandbox.connect_port(INTERPRETER_PORT)


async def test_a_kernel_gets_the_variables_that_the_sandbox_has_at_its_first_execution(sandbox):
    await sandbox.start_interpreter()
    context = json.loads(await ask(sandbox, "/contexts", {}))["id"]
    assert await value_of(sandbox, "LATER") is None

    await sandbox.configure(
        envs=sandbox.envs | {"LATER": "it is here"}, default_user="user", default_cwd=""
    )

    assert await value_of(sandbox, "LATER", context_id=context) == "it is here"
    own = {"context_id": context, "env_vars": {"LATER": "mine"}}
    assert await value_of(sandbox, "LATER", **own) == "mine"
    assert await value_of(sandbox, "LATER", context_id=context) == "it is here"
    assert await value_of(sandbox, "LATER") is None, "a kernel is told once"
