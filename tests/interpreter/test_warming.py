"""The interpreter that is there before anybody asked for it."""

from __future__ import annotations

import time

import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.engine_process import engine_process
from tests.interpreter.conftest import client_of
from tests.waiting import until

pytestmark = pytest.mark.long

TAG = "_interpreter"


@pytest.fixture
def create(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    made = []

    def create(template, **options):
        made.append(Sandbox.create(template, config=config, timeout=120, **options))
        return made[-1]

    yield create
    for sandbox in made:
        sandbox.kill()


def tags(sandbox):
    return [process.tag for process in sandbox.commands.list()]


def wait_for_interpreter(sandbox):
    until(lambda: TAG in tags(sandbox), message="the interpreter was not started")


def test_it_starts_by_itself_where_the_template_is_made_for_it(create, shared_engine):
    plain, made_for_it = create("base"), create("code-interpreter-v1", envs={"GIVEN": "here"})

    wait_for_interpreter(made_for_it)

    assert tags(plain) == [], "it would have been the first in the queue"
    with client_of(shared_engine, made_for_it) as http:
        answer = http.post("/execute", json={"code": "import os; os.environ['GIVEN']"})
    assert "here" in answer.text
    assert tags(made_for_it) == [TAG]


def test_several_are_started_one_after_the_other(create):
    sandboxes = [create("code-interpreter-v1") for _ in range(3)]
    sandboxes[1].kill()

    wait_for_interpreter(sandboxes[0])
    wait_for_interpreter(sandboxes[2])


def test_an_engine_can_be_told_to_leave_it():
    with engine_process("cold", "--SbxEngine.warm_interpreter=False") as engine:
        config = ConnectionConfig.from_connection_file(engine.connection)
        with Sandbox.create("code-interpreter-v1", config=config, timeout=60) as sandbox:
            deadline = time.monotonic() + 3  # many times what it takes when it is not told
            while time.monotonic() < deadline:
                assert tags(sandbox) == []
                time.sleep(0.2)
