"""Run by a test as an ordinary user: a sandbox of the Landlock tier, and what it can reach."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import choose, detect
from tests.isolation.inside import Inside, sandbox
from tests.isolation.kernel.numbered_calls import made_and_refused
from tests.waiting import PATIENCE, async_until

COMMANDS = {
    "python": "python -c 'print(6 * 7)'",
    "git": "git init -q ~/r && echo ok",
    "home": "cd && echo $PWD && touch f && echo made",
    "tmp": 'python -c "import tempfile; print(tempfile.mkdtemp())"',
    "sudo": "sudo true && echo ok",
    "secret": "cat {secret} 2>&1",
    "sibling": "ls {data}/sandboxes/other/upper 2>&1",
    "list": "ls {data}/sandboxes 2>&1",
    "write": "touch /tmp/outside 2>&1",
    "store": "echo x >> {secret} 2>&1",
    "kill_engine": "kill -0 {engine} 2>&1",
    "kill_keeper": "kill -9 {keeper} 2>&1",
    "environ": "cat /proc/{engine}/environ 2>&1",
    "terminals": "cat /dev/pts/0 < /dev/null 2>&1; ls /dev/pts 2>&1",
    "tcp": "python -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\" 2>&1",
    "udp": 'python -c "import socket; socket.socket(2, 2)" 2>&1',
    "unix": "python -c \"import socket; socket.socket(1, 1).connect('{listener}')\" 2>&1",
    "serve": "cd; python - <<'E'\n{served}\nE",
    "userns": "unshare -U true 2>&1",
}


SERVED = """
import threading, urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
server = ThreadingHTTPServer(('127.0.0.1', {port}), SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen('http://localhost:{port}/').status)
"""
"""On the port of a server of the machine: neither hears of the other."""


async def main(data: Path) -> None:
    """Make two sandboxes and try from one of them."""
    report = detect(data)
    tier = choose(report, "landlock")
    assert tier == "landlock"
    fence = Fence(data, report, tier)
    await fence.start()
    secret = data / "secret"
    secret.write_text("of the engine")
    server = socket.create_server(("127.0.0.1", 0))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(data / "listener"))
    listener.listen()
    seen: dict[str, object] = {}
    async with sandbox(fence, data, "other"), sandbox(fence, data, "main") as inside:
        cage = inside.cage
        names = {
            "data": data, "secret": secret, "engine": os.getpid(), "keeper": cage.pid,
            "listener": data / "listener", "served": SERVED, "port": server.getsockname()[1],
        }  # fmt: skip
        for name, command in COMMANDS.items():
            for key, value in names.items():
                command = command.replace(f"{{{key}}}", str(value))
            ran = await inside.run(command)
            seen[name] = ran.out.strip() or f"({ran.status}) {ran.err.strip()}"
        seen["heard"] = select.select([server, listener], [], [], 0)[0] != []
        seen["calls"] = json.loads((await inside.run(made_and_refused())).out)
        reply = await inside.ask("list_dir", path="/home/user", user="user", depth=1)
        seen["listed"] = sorted(entry["name"] for entry in reply.body["entries"])
        reply = await inside.ask(
            "start", cmd="/bin/bash", args=["-c", "tty -s && echo terminal"], envs={}, cwd="",
            user="user", tag=None, stdin=True, pty=[80, 24],
        )  # fmt: skip
        seen["pty"] = (await async_until(lambda: _read(reply.fds[0]))).decode().strip()
        os.close(reply.fds[0])
        await inside.start("(setsid sleep 1000 &) ; while :; do sleep 0.01; done")
        # the keeper, the agent, the shell and what it put in the background
        await async_until(lambda: len(descendants.descendants(cage.pid)) >= 4)
        usage = cage.usage()
        seen["processes"] = usage.processes if usage else None
        await cage.freeze()
        states = [_state(pid) for pid in descendants.descendants(cage.pid)[1:]]
        seen["frozen"] = set(states) <= set("TZ") and states.count("T") >= 2
        await cage.thaw()
        seen.update(await bombed(inside))
        below = descendants.descendants(cage.pid)
        with contextlib.suppress(UnavailableError):  # its reply may be lost
            await inside.start("kill -9 -1")  # the agent, too, but not its keeper
        await asyncio.wait_for(cage.wait_dead(), PATIENCE)
    seen["left"] = [pid for pid in below if Path(f"/proc/{pid}").exists() and _state(pid) != "Z"]
    seen["dirs"] = os.listdir(data / "sandboxes")
    await fence.stop()
    print(json.dumps(seen))


async def bombed(inside: Inside) -> dict[str, object]:
    """How two bombs ended, and whether the sandbox answers afterwards."""
    script = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    command = f"exec python -c '{script}'"
    # What is promised is that it ends, and it takes the machine's time while it lives.
    ends = [(await inside.run(command, timeout=90)).status for _ in range(2)]
    # Those that were ended have to be reaped yet.
    await async_until(lambda: descendants.count_tasks(inside.cage.pid) <= 20)
    alive = await inside.run("echo alive")
    return {"bombs": ends, "after_bomb": alive.out.strip()}


def _read(fd: int) -> bytes:
    """What a terminal has to read now."""
    try:
        return os.read(fd, 100)
    except BlockingIOError:
        return b""


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


if __name__ == "__main__":
    signal.alarm(200)
    asyncio.run(main(Path(sys.argv[1])))
