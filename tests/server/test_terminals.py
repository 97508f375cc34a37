"""Terminals over the WebSocket: nothing lost, nothing doubled, nothing piled up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import resource
from pathlib import Path

import pytest
from jupyter_core.paths import jupyter_data_dir

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.client.api.runtime import RuntimeClient
from sbx_jupyter.client.processes import terminal_link
from sbx_jupyter.server.terminal_names import MAX_NAMES, TAG, TerminalNames, new_tag
from sbx_jupyter.server.terminal_views import TerminalViews
from tests.waiting import async_until

pytestmark = pytest.mark.usefixtures("with_engine")


class Screen:
    """What a browser would keep of one terminal socket."""

    def __init__(self, socket):
        self.socket = socket
        self.output = b""
        self.pid = 0
        self.start = 0
        self.sequence = 0
        self.closing = None
        self.told = {}

    async def read(self):
        """One frame; false at the end."""
        frame = await self.socket.read_message()
        if frame is None:
            return False
        if isinstance(frame, bytes):
            self.output += frame
            self.sequence += len(frame)
            return True
        control = json.loads(frame)
        if "pid" in control:
            self.pid = control["pid"]
            self.start = self.sequence = control["sequence"]
        elif "viewers" in control:
            self.told = control
        else:
            self.closing = control
        return True

    async def started(self):
        await self.read()
        assert self.pid
        return self

    async def until(self, wanted):
        """Read until the output holds ``wanted``, which may be a pattern."""
        while not re.search(wanted, self.output):
            assert await self.read(), f"the terminal ended with {self.closing}: {self.output!r}"

    async def end(self):
        while await self.read():
            pass
        return self.closing

    async def type(self, keys):
        await self.socket.write_message(keys, binary=True)

    async def tell(self, **control):
        await self.socket.write_message(json.dumps(control))


@pytest.fixture
def terminal(open_socket, sandbox):
    async def attach(**params):
        socket = await open_socket(f"sandboxes/{sandbox}/terminal", **params)
        return await Screen(socket).started()

    return attach


@pytest.fixture(params=[True, False], ids=["here", "elsewhere"])
def place(request, monkeypatch):
    """Where the engine is: keys go by one request to one here, by one each to others."""
    monkeypatch.setattr(RuntimeClient, "is_local", request.param)


@pytest.mark.usefixtures("place")
async def test_a_shell_answers_and_its_end_is_told(terminal):
    screen = await terminal(cols=90, rows=20, cwd="/usr/bin")

    await screen.type(b"stty size; tty; echo $TERM; pwd; exit 7\n")
    closing = await screen.end()

    assert b"20 90" in screen.output
    assert b"/dev/pts/" in screen.output
    assert b"\n/usr/bin\r" in screen.output
    assert b"xterm-256color" in screen.output
    assert closing["exit"]["code"] == 7
    assert "7" in closing["exit"]["status"]
    assert screen.socket.close_code == 1000


async def test_bytes_of_one_character_survive_in_two_frames(terminal):
    screen = await terminal()
    euro = "€".encode()

    await screen.type(b"printf '%s|\\n' \"" + euro[:1])
    await screen.type(euro[1:] + b"\"; printf 'do''ne\\n'\n")
    await screen.until(b"done")

    assert b"\r" + euro + b"|" in screen.output


async def test_the_size_follows_the_browser(terminal):
    screen = await terminal(cols=80, rows=24)
    await screen.tell(resize={"cols": 133, "rows": 44})

    await screen.type(b"until stty size | grep -q '44 133'; do sleep 0.05; done; echo re''sized\n")

    await screen.until(b"resized")


@pytest.mark.usefixtures("place")
async def test_a_page_pasted_at_once_arrives_whole(terminal):
    screen = await terminal()
    line = b"x" * 99 + b"\n"
    await screen.type(b"stty -echo; echo re''ady; head -c 1000000 | sha256sum; wc -c </dev/null\n")
    await screen.until(b"ready")

    await screen.type(line * 10_000)
    await screen.until(rb"[0-9a-f]{64}")

    assert hashlib.sha256(line * 10_000).hexdigest().encode() in screen.output


async def test_a_terminal_that_rests_takes_keys_afterwards(terminal, monkeypatch):
    monkeypatch.setattr(terminal_link, "KEEPALIVE_INTERVAL", 0.01)
    screen = await terminal()
    await screen.type(b"echo awa''ke\n")
    await screen.until(b"awake")

    await asyncio.sleep(0.5)  # some fifty messages that keep the request open
    await screen.type(b"echo aga''in\n")

    await screen.until(b"again")


@pytest.mark.usefixtures("place")
async def test_keys_reach_a_program_that_reads_later(terminal, call):
    screen = await terminal()
    later = b"until [ -e ~/read-now ]; do sleep 0.05; done; head -c 300000 | wc -c"
    await screen.type(b"stty -echo -icanon; echo re''ady; %s\n" % later)
    await screen.until(b"ready")

    await screen.type(b"y" * 300_000)
    await screen.tell(resize={"cols": 111, "rows": 22})
    await call("MakeDir", {"path": "read-now"})

    await screen.until(rb"300000")


async def test_a_browser_that_stops_reading_costs_no_memory_and_nobody_else_time(terminal, api):
    screen = await terminal()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await screen.type(b"yes this is a long line of output that never ends\n")
    await screen.until(b"never ends")

    loop = asyncio.get_running_loop()
    slowest = 0.0
    for _ in range(20):
        start = loop.time()
        assert (await api("GET", "sandboxes"))[0] == 200
        slowest = max(slowest, loop.time() - start)
        await asyncio.sleep(0.05)  # a second of it
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert grown < 64 * 1024
    assert slowest < 5  # a fraction of a second, were the machine not busy with others


async def test_a_browser_that_acknowledges_holds_no_more_than_a_window(terminal):
    screen = await terminal()
    await screen.tell(ack=0)
    await screen.type(b"stty -echo; yes | head -c 3000000; echo; echo en''d\n")

    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(1.5):
            await screen.until(b"end\r")
    held = len(screen.output)
    assert held < 700_000

    while not screen.output.endswith(b"$ ") or b"end" not in screen.output:
        await screen.tell(ack=len(screen.output))
        assert await screen.read()
    assert screen.output.count(b"y") >= 1_500_000


async def test_coming_back_misses_nothing_and_repeats_nothing(terminal, call):
    first = await terminal()
    loop = b"for i in $(seq 1 900); do echo line-$i-; sleep 0.0005; done"
    await first.type(b"stty -echo; %s; touch ~/said-all\n" % loop)
    await first.until(b"line-200-")
    first.socket.close()

    async def has_said_all():
        return (await call("Stat", {"path": "said-all"}))[0] == 200

    await async_until(has_said_all)
    second = await terminal(pid=first.pid, since=first.sequence)
    await second.until(b"line-900-")

    assert second.start == first.sequence
    seen = (first.output + second.output).decode()
    numbers = [int(n) for n in re.findall(r"line-(\d+)-", seen)]
    assert numbers == list(range(1, 901))


async def test_coming_back_too_late_says_where_output_goes_on(terminal):
    first = await terminal()
    await first.type(b"stty -echo; echo go; read; yes | head -c 4000000; echo; echo en''d; cat\n")
    await first.until(rb"\rgo\r")
    first.socket.close()
    silent = await terminal(pid=first.pid, since=first.sequence)
    await silent.type(b"\n")
    await silent.until(b"end\r")

    late = await terminal(pid=first.pid, since=first.sequence)
    await late.until(b"end\r")

    assert late.start > first.sequence
    assert late.sequence == silent.sequence
    assert silent.output.endswith(late.output)


async def test_two_views_show_the_same_terminal(terminal):
    one = await terminal()
    other = await terminal(pid=one.pid, since=0)

    await one.type(b"echo from-o''ne\n")
    await other.until(b"from-one")
    await other.type(b"echo from-oth''er\n")
    await one.until(b"from-other")

    await one.type(b"exit 3\n")
    assert (await one.end())["exit"]["code"] == 3
    assert (await other.end())["exit"]["code"] == 3


async def test_terminals_are_listed_while_they_run(terminal, api, sandbox):
    screen = await terminal()

    status, listed = await api("GET", "sandboxes", sandbox, "terminals")

    assert status == 200
    [only] = [item for item in listed if item["pid"] == screen.pid]
    assert only["cmd"].startswith("/bin/bash")

    async def has_no_viewer():
        _, listed = await api("GET", "sandboxes", sandbox, "terminals")
        [only] = [item for item in listed if item["pid"] == screen.pid]
        return only["viewers"] == []

    assert not await has_no_viewer()
    screen.socket.close()
    await async_until(has_no_viewer)

    again = await terminal(pid=screen.pid, since=screen.sequence)
    await again.type(b"exit\n")
    await again.end()
    _, listed = await api("GET", "sandboxes", sandbox, "terminals")
    assert screen.pid not in [item["pid"] for item in listed]


@pytest.mark.parametrize(
    ("params", "code", "close_code"),
    [
        ({"pid": 999_999}, "not_found", 4404),
        ({"cols": "wide"}, "invalid_argument", 4400),
        ({"rows": "0"}, "invalid_argument", 4400),
        ({"pid": "1", "since": "-1"}, "invalid_argument", 4400),
    ],
)
async def test_what_cannot_be_attached_is_told(open_socket, sandbox, params, code, close_code):
    socket = await open_socket(f"sandboxes/{sandbox}/terminal", **params)

    assert json.loads(await socket.read_message())["error"]["code"] == code
    assert await socket.read_message() is None
    assert socket.close_code == close_code


async def test_a_terminal_that_a_notebook_began_is_shown(terminal, sandbox, engine):
    config = ConnectionConfig.from_connection_file(engine.connection)
    async with await AsyncSandbox.connect(sandbox, config=config) as notebook:
        began = await notebook.pty.create()

        screen = await terminal(pid=began.pid, cols=80, rows=24)

        await screen.type(b"echo typed-$((2))-here\n")
        await screen.until(b"typed-2-here")


async def test_an_unknown_sandbox_is_told(open_socket):
    socket = await open_socket("sandboxes/i00000000000000000000/terminal")

    assert json.loads(await socket.read_message())["error"]["code"] == "not_found"
    assert await socket.read_message() is None
    assert socket.close_code == 4404


@pytest.mark.parametrize(
    "frame", ["{", "[]", '{"resize": {"cols": "x"}}', '{"resize": null}', '{"ack": -5}', '"text"']
)
async def test_a_text_frame_that_means_nothing_is_passed_over(terminal, frame):
    screen = await terminal()
    await screen.socket.write_message(frame)

    await screen.type(b"echo still-he''re\n")

    await screen.until(b"still-here")


async def test_a_killed_sandbox_ends_its_terminals(terminal, api, sandbox):
    screen = await terminal()

    await api("DELETE", "sandboxes", sandbox)

    closing = await screen.end()
    assert closing["error"]["code"] in ("unavailable", "not_found")
    assert screen.socket.close_code in (4503, 4404)


async def test_a_terminal_says_what_runs_in_it_and_is_ended(api, sandbox, open_socket):
    screen = await Screen(await open_socket(f"sandboxes/{sandbox}/terminal")).started()
    one = ("sandboxes", sandbox, "terminals", str(screen.pid))
    await screen.type(b"echo at-the-$((1))-prompt\n")
    await screen.until(b"at-the-1-prompt")

    async def runs(name):
        return (await api("GET", *one))[1]["running"] == name

    for wanted in ("", "sleep"):
        await async_until(lambda: runs(wanted))  # noqa: B023
        await screen.type(b"sleep 1000\n")

    assert (await api("DELETE", *one))[0] == 204

    closing = await screen.end()
    assert closing is not None
    assert "exit" in closing
    assert (await api("GET", "sandboxes", sandbox, "terminals"))[1] == []
    assert (await api("DELETE", *one))[0] == 404


async def test_only_terminals_are_ended_as_terminals(api, sandbox):
    status, body = await api("DELETE", "sandboxes", sandbox, "terminals", "1")

    assert (status, body["code"]) == (404, "not_found")


async def told(screen, **expected):
    """Read until the name and the kinds of viewers are these."""
    while (
        screen.told.get("name"),
        [each["readOnly"] for each in screen.told.get("viewers", [])],
    ) != (expected["name"], expected["viewers"]):
        assert await screen.read()


@pytest.mark.parametrize("jp_base_url", ["/user/a%40b/", "/jupyter/x/"])
async def test_viewers_share_a_terminal_and_its_name(terminal, api, sandbox, jp_base_url):
    screen = await terminal()
    one = ("sandboxes", sandbox, "terminals", str(screen.pid))
    watching = await terminal(pid=screen.pid, readOnly="true")
    await told(screen, name="", viewers=[False, True])

    status, named = await api("PATCH", *one, body={"name": " build <b> "})

    assert (status, named["name"]) == (200, "build <b>")
    await told(screen, name="build <b>", viewers=[False, True])
    await told(watching, name="build <b>", viewers=[False, True])
    (listed,) = (await api("GET", "sandboxes", sandbox, "terminals"))[1]
    assert listed["name"] == "build <b>"
    assert listed["link"] == f"{jp_base_url}lab?sbx-terminal={sandbox}:{screen.pid}"
    watching.socket.close()
    await told(screen, name="build <b>", viewers=[False])
    await screen.type(b"exit\n")
    await screen.end()
    assert (await api("PATCH", *one, body={"name": "x"}))[0] == 404


async def test_a_view_that_only_reads_changes_nothing(terminal):
    screen = await terminal(cols=81, rows=21)
    watching = await terminal(pid=screen.pid, readOnly="true", cols=10, rows=10)

    await watching.tell(resize={"cols": 33, "rows": 11})
    await watching.type(b"echo typed-by-$((1))-watcher\n")
    await screen.type(b"stty size; echo is-$((1))-size\n")

    await watching.until(b"is-1-size")
    assert b"21 81" in watching.output
    assert b"typed-by" not in watching.output


@pytest.mark.parametrize("pid", ["0", "1"])
async def test_only_terminals_are_watched(open_socket, sandbox, pid):
    socket = await open_socket(f"sandboxes/{sandbox}/terminal", pid=pid, readOnly="true")

    assert json.loads(await socket.read_message())["error"]["code"] == "not_found"


@pytest.mark.parametrize("name", ["x" * 65, "two\nlines", "\u202e"])
async def test_names_that_cannot_be_shown_are_refused(terminal, api, sandbox, name):
    screen = await terminal()

    status, error = await api(
        "PATCH", "sandboxes", sandbox, "terminals", str(screen.pid), body={"name": name}
    )

    assert (status, error["code"]) == (400, "invalid_argument")


async def test_names_of_terminals_are_bounded(tmp_path):
    views = TerminalViews(TerminalNames(tmp_path / "names"))
    tags = [new_tag() for _ in range(MAX_NAMES + 50)]
    for pid, tag in enumerate(tags):
        await views.rename("i1", pid, tag, f"n{pid}")

    last = len(tags) - 1
    assert views.describe("i1", last)["name"] == f"n{last}"
    assert views.describe("i1", 0)["name"] == ""
    assert len(list((tmp_path / "names").iterdir())) == MAX_NAMES


async def test_a_name_outlives_the_server(terminal, api, sandbox, jp_serverapp):
    """The next server knows it, at the first look and for each new view."""
    screen = await terminal()
    one = ("sandboxes", sandbox, "terminals", str(screen.pid))
    assert (await api("PATCH", *one, body={"name": "build"}))[0] == 200
    folder = Path(jupyter_data_dir()) / "sbx-terminals"
    assert [path.read_text() for path in folder.iterdir()] == ["build"]
    (extension,) = jp_serverapp.extension_manager.extension_apps["sbx_jupyter"]

    extension.terminals = TerminalViews(TerminalNames(folder))  # as a new server has them

    assert (await api("GET", *one))[1]["name"] == "build"
    extension.terminals = TerminalViews(TerminalNames(folder))
    again = await terminal(pid=screen.pid, since=screen.sequence)
    await told(again, name="build", viewers=[False])
    extension.terminals = TerminalViews(TerminalNames(folder))
    (listed,) = (await api("GET", "sandboxes", sandbox, "terminals"))[1]
    assert listed["name"] == "build"
    assert (await api("DELETE", *one))[0] == 204
    await async_until(lambda: not list(folder.iterdir()))


async def test_another_terminal_of_the_same_number_has_no_name(tmp_path):
    """As after a sandbox was paused without memory and started again."""
    views = TerminalViews(TerminalNames(tmp_path))
    first, second = new_tag(), new_tag()
    await views.meet("i1", {7: first})
    await views.rename("i1", 7, first, "build")

    await views.meet("i1", {7: second})

    assert views.describe("i1", 7)["name"] == ""
    await views.meet("i1", {8: first})
    assert views.describe("i1", 8)["name"] == "build"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"two\nlines", b"x" * 65])
async def test_a_damaged_name_is_no_name(tmp_path, content):
    tag = new_tag()
    (tmp_path / tag.rpartition(".")[2]).write_bytes(content)

    assert TerminalNames(tmp_path).read([tag, f"{TAG}.../../etc/passwd"]) == {}
