"""e2b for Python, synchronously: the life of a sandbox."""

from __future__ import annotations

import uuid

import pytest
from e2b import (
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
)

from tests.waiting import until


def listed(query):
    pages = Sandbox.list(query=query)
    found = []
    while pages.has_next:
        found += pages.next_items()
    return found


def test_a_created_sandbox_says_what_it_was_created_with():
    with Sandbox.create(timeout=90, metadata={"purpose": "a b&c"}, envs={"X": "1"}) as sandbox:
        info = sandbox.get_info()

    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"purpose": "a b&c"}
    assert info.state == SandboxState.RUNNING
    assert 80 < (info.end_at - info.started_at).total_seconds() <= 91


def test_a_sandbox_is_listed_by_its_metadata_until_it_is_killed():
    mark = {"mark a": uuid.uuid4().hex + "=&"}
    with Sandbox.create(timeout=600, metadata=mark) as sandbox:
        assert [s.sandbox_id for s in listed(SandboxQuery(metadata=mark))] == [sandbox.sandbox_id]

        assert sandbox.kill() is True

        assert listed(SandboxQuery(metadata=mark)) == []
        assert sandbox.kill() is False


def test_pages_of_sandboxes_hold_each_one_once():
    mark = {"mark": uuid.uuid4().hex}
    created = [Sandbox.create(timeout=600, metadata=mark) for _ in range(3)]

    pages = Sandbox.list(query=SandboxQuery(metadata=mark), limit=2)
    sizes, found = [], []
    while pages.has_next:
        page = pages.next_items()
        sizes.append(len(page))
        found += [s.sandbox_id for s in page]

    for sandbox in created:
        sandbox.kill()
    assert sizes == [2, 1]
    assert sorted(found) == sorted(s.sandbox_id for s in created)


def test_connecting_gives_the_same_sandbox(sandbox):
    sandbox.files.write("note", "left by the first")

    other = Sandbox.connect(sandbox.sandbox_id)

    assert other.files.read("note") == "left by the first"


def test_connecting_to_nothing_is_not_found():
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect("iaaaaaaaaaaaaaaaaaaaa")


def test_a_killed_sandbox_is_not_running(sandbox):
    assert sandbox.is_running()

    sandbox.kill()

    assert not sandbox.is_running()
    with pytest.raises(SandboxException):
        sandbox.commands.run("true")


def test_an_unknown_template_is_an_error():
    with pytest.raises((NotFoundException, SandboxException), match="no-such-template"):
        Sandbox.create(template="no-such-template")


def test_a_wrong_key_is_refused():
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)


def test_the_timeout_can_be_shortened_and_then_ends_the_sandbox(sandbox):
    sandbox.set_timeout(1)

    until(lambda: not sandbox.is_running())
    with pytest.raises(NotFoundException):
        sandbox.get_info()


def test_a_paused_sandbox_keeps_its_files_and_wakes_by_connect(sandbox):
    sandbox.files.write("kept", "yes")

    assert sandbox.pause() is True

    assert sandbox.get_info().state == SandboxState.PAUSED
    assert sandbox.pause() is False
    resumed = sandbox.connect(timeout=600)
    assert resumed.files.read("kept") == "yes"
    assert resumed.sandbox_id == sandbox.sandbox_id


def test_a_pause_with_memory_keeps_processes(sandbox):
    handle = sandbox.commands.run("sleep 1000", background=True, timeout=0)
    sandbox.pause()

    sandbox.connect(timeout=600)

    assert handle.pid in [process.pid for process in sandbox.commands.list()]


def test_environment_given_on_creation_reaches_every_command():
    with Sandbox.create(timeout=600, envs={"COLOUR": "teal"}) as sandbox:
        assert sandbox.commands.run("echo $COLOUR").stdout == "teal\n"
        assert sandbox.commands.run("echo $COLOUR", envs={"COLOUR": "red"}).stdout == "red\n"
        assert sandbox.commands.run("echo $E2B_SANDBOX_ID").stdout.strip() == sandbox.sandbox_id


def test_metrics_are_recorded(sandbox):
    metrics = until(sandbox.get_metrics, step=0.5)

    assert metrics[-1].mem_total > 0
    assert metrics[-1].cpu_count >= 1
    assert metrics[-1].disk_total > 0


def test_the_host_of_a_port_names_port_and_sandbox(sandbox):
    assert sandbox.get_host(8000).startswith(f"8000-{sandbox.sandbox_id}.")


def test_a_snapshot_is_a_template_to_start_from(sandbox):
    sandbox.files.write("state", "captured")

    snapshot = sandbox.create_snapshot()

    with Sandbox.create(template=snapshot.snapshot_id, timeout=600) as copy:
        assert copy.files.read("state") == "captured"
        assert copy.sandbox_id != sandbox.sandbox_id
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True


def test_a_fork_starts_with_the_files_of_its_source(sandbox):
    sandbox.files.write("state", "forked")

    forks = sandbox.fork(count=2)

    try:
        assert [fork.files.read("state") for fork in forks] == ["forked", "forked"]
    finally:
        for fork in forks:
            fork.kill()
