"""An agent that lies: the engine checks every answer and every descriptor."""

import asyncio
import contextlib
import os
import socket
import threading
import time

import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.engine.live.sandbox import Sandbox
from sbx_jupyter.errors import InternalError, UnavailableError
from sbx_jupyter.protocol.runtime import ProcessConfig, StartRequest
from tests.engine.live.running import bash, count_descriptors, run, terminal
from tests.waiting import PATIENCE, async_until


class LyingAgent:
    """Answers each operation with what a test prepared."""

    def __init__(self, path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self.answers = {"hello": ({"version": 2}, ())} | {
            op: ({}, ()) for op in ("configure", "usage")
        }
        self.events: list[dict] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError), self._listener.accept()[0] as sock:
            while (message := wire.receive(sock)) is not None:
                body, _ = message
                answer = self.answers.get(body["op"])
                if answer is None:
                    continue
                for event in self.events:
                    wire.send(sock, event)
                made, fds = answer
                wire.send(sock, {"id": body["id"], "ok": made}, fds)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, if nobody ever connected
        self._listener.close()
        self._thread.join()


@pytest.fixture
async def agent(tmp_path):
    agent = LyingAgent(tmp_path / "agent.sock")
    yield agent
    agent.close()


@pytest.fixture
async def deceived(agent, tmp_path, cage, limits):
    sandbox = Sandbox("lied-to", cage, tmp_path, limits=limits)
    await sandbox.open(envs={}, default_user="root", default_cwd="")
    yield sandbox
    await sandbox.aclose()


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


@pytest.fixture
def device():
    fd = os.open("/dev/zero", os.O_RDONLY)
    yield fd
    os.close(fd)


async def test_a_pipe_in_place_of_a_file_is_refused_and_closed(deceived, agent, pipe):
    opened = {"path": "/a", "name": "a", "size": 1, "mtime_ns": 1}
    agent.answers |= {"open": (opened, pipe[:1]), "create": (opened, pipe[1:])}
    before = count_descriptors()

    for opening in (deceived.files.open_read, deceived.files.open_write):
        with pytest.raises(InternalError, match="wrong descriptor"):
            await opening("/a")

    assert count_descriptors() == before


async def test_missing_and_surplus_descriptors_are_noticed_and_closed(deceived, agent, pipe):
    opened = {"path": "/a", "name": "a", "size": 1, "mtime_ns": 1}
    regular = os.open(__file__, os.O_RDONLY)
    agent.answers |= {
        "open": (opened, [regular, *pipe]),
        "create": (opened, ()),
        "stat": ({}, pipe),
    }
    before = count_descriptors()

    (await deceived.files.open_read("/a")).close()
    with pytest.raises(InternalError):
        await deceived.files.open_write("/a")
    with pytest.raises(InternalError):
        await deceived.files.stat("/a")

    assert count_descriptors() == before
    os.close(regular)


async def test_a_device_in_place_of_output_is_refused(deceived, agent, pipe, device):
    before = count_descriptors()

    agent.answers["start"] = ({"pid": 5}, [device, pipe[0]])
    with pytest.raises(InternalError):
        await deceived.processes.start(bash("true"))
    agent.answers["start"] = ({"pid": 5}, [device])
    with pytest.raises(InternalError):
        await deceived.processes.start(terminal("true"))

    assert deceived.processes.list() == []
    assert count_descriptors() == before


@pytest.mark.parametrize("pid", [None, "1", -3, 0, [1]])
async def test_a_process_needs_a_pid(deceived, agent, pipe, pid):
    agent.answers["start"] = ({"pid": pid}, [pipe[0], pipe[0]])
    before = count_descriptors()

    with pytest.raises(InternalError):
        await deceived.processes.start(bash("true"))

    assert count_descriptors() == before


async def test_output_is_read_without_blocking_whatever_the_agent_sets(deceived, agent, pipe):
    agent.answers["start"] = ({"pid": 5}, [pipe[0], pipe[0]])
    process = await deceived.processes.start(bash("true"))
    subscription = process.subscribe()

    os.set_blocking(pipe[0], True)
    os.write(pipe[1], b"x")

    assert (await asyncio.wait_for(anext(subscription), PATIENCE)).chunk == b"x"
    os.write(pipe[1], b"y")
    assert (await asyncio.wait_for(anext(subscription), PATIENCE)).chunk == b"y"


async def test_malformed_entries_are_refused(deceived, agent):
    for entry in ({}, {"name": 1, "type": [], "path": None}, None, {"name": "a"}):
        agent.answers["stat"] = ({"entry": entry}, ())
        with pytest.raises(InternalError, match="malformed"):
            await deceived.files.stat("/a")


class Verbatim(wire.Encoded):
    """An answer whose text a test chose."""


@pytest.mark.parametrize(
    ("sizes", "end"),
    [
        (b"%d", b"]}"),
        (b"%d,0", b"]}"),
        (b"1,%d", b"]}"),
        (b"", b"]}"),
        (b",", b"]}"),
        (b"9" * 999, b"]}"),
        (b"%d", b",{}]}"),
        (b"%d", b'],"more":1}'),
    ],
)
async def test_a_long_listing_of_other_sizes_than_it_says_is_refused(deceived, agent, sizes, end):
    entry = b'{"name":"a","type":"FILE_TYPE_FILE","path":"/a"}'
    entries = b",".join([entry] * 40_000)
    sizes = sizes.replace(b"%d", b"%d" % (len(entries) + (end == b"]}")))
    answer = Verbatim(b'{"sizes":[%b],"entries":[%b%b' % (sizes, entries, end))
    agent.answers["list_dir"] = (answer, ())

    with pytest.raises(InternalError, match="malformed"):
        await deceived.files.list_dir("/")


async def test_a_file_is_not_a_socket(deceived, agent, device):
    agent.answers |= {"sockets": ({}, [device] * 16), "listen": ({}, [device])}
    before = count_descriptors()

    with pytest.raises(InternalError):
        await deceived.connect_port(80)
    with pytest.raises(InternalError):
        await deceived.listen_port(80)

    assert count_descriptors() == before


async def test_senseless_events_are_ignored(deceived, agent):
    agent.answers["stat"] = ({"entry": {"name": "a", "type": "t", "path": "/a"}}, ())
    agent.events = [
        {"event": "exit", "pid": "x", "status": None},
        {"event": "exit", "pid": 77, "status": 10**30},
        {"event": 5},
        {"event": "fatal"},
    ]

    assert (await deceived.files.stat("/a")).path == "/a"


async def test_an_agent_that_is_silent_is_not_waited_for(deceived):
    with pytest.raises(UnavailableError):
        await deceived.call("stat", timeout=0.1, path="/a", user=None)


async def test_a_lost_channel_closes_the_sandbox(deceived, agent, pipe):
    agent.answers["start"] = ({"pid": 5}, [pipe[0], pipe[0]])
    subscription = (await deceived.processes.start(bash("true"))).subscribe()
    agent.answers["stat"] = ({"memfd": 12}, ())
    agent.events = [{"memfd": 12}]

    with pytest.raises(UnavailableError):
        await deceived.files.stat("/a")

    await async_until(deceived.closed.is_set)
    with pytest.raises(UnavailableError):
        await anext(subscription)


async def test_an_agent_of_another_version_is_refused(agent, tmp_path, cage, limits):
    agent.answers["hello"] = ({"version": 3}, ())
    sandbox = Sandbox("new", cage, tmp_path, limits=limits)

    with pytest.raises(UnavailableError, match="version 3"):
        await sandbox.open(envs={}, default_user="root", default_cwd="")

    assert sandbox.closed.is_set()


async def test_a_sandbox_without_a_socket_is_unavailable(tmp_path, cage, limits):
    sandbox = Sandbox("none", cage, tmp_path / "nowhere", limits=limits)

    with pytest.raises(UnavailableError):
        await sandbox.open(envs={}, default_user="root", default_cwd="")


async def test_a_socket_with_a_long_path_is_reached(tmp_path, cage, limits):
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    directory = os.open(folder, os.O_PATH)
    agent = LyingAgent(f"/proc/self/fd/{directory}/agent.sock")
    os.close(directory)
    sandbox = Sandbox("far", cage, folder, limits=limits)

    await sandbox.open(envs={"A": "b"}, default_user="user", default_cwd="")

    assert (sandbox.envs, sandbox.default_user) == ({"A": "b"}, "user")
    await sandbox.aclose()
    agent.close()


STOPPER = """
import os, signal
print("stopping", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:
        pass
"""


async def test_nobody_inside_can_stop_the_agent_through_what_it_starts(sandbox):
    """A loop of the same user stops each child before its exec."""
    script = StartRequest(process=ProcessConfig(cmd="python3", args=["-c", STOPPER]), stdin=False)
    stopper = await sandbox.processes.start(script, user="user")
    assert (await anext(stopper.subscribe())).chunk == b"stopping\n"
    waited = []
    for _ in range(8):
        began = time.monotonic()
        await sandbox.processes.start(bash("exit 0"), user="user")
        waited.append(time.monotonic() - began)

    # Held up or not, each start was answered, and long before the patience of a call is over.
    assert max(waited) < 15
    await stopper.signal(9)
    assert (await run(sandbox, "echo free")).stdout == b"free\n"
