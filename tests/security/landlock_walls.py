"""Attacks on sandboxes of the Landlock tier that need more than a script inside; prints JSON.

Arguments: an empty directory of the ordinary user that runs this. Standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.tiers import choose, detect
from tests.isolation.inside import LIMITS, Inside, sandbox
from tests.waiting import async_until, until

PATIENCE = 100
"""Seconds for all of it."""
PROCESSES = 40
ROUNDS = 50
STUBBORN = (
    "export LEFT=MARK; trap '' TERM HUP;"
    "(setsid sh -c 'trap \"\" TERM; while :; do sleep 0.3; done' &);"
    "setsid sh -c 'kill -STOP $$; sleep 99' & (sleep 99 &); exec sleep 99"
)
"""Programs in other sessions, orphans, stopped ones."""

MOST_FORKS = 3000

DATAGRAMS = """
import os, socket, sys
path = sys.argv[1]
def told(call, *values):
    try:
        call(*values)
        return 'made'
    except OSError as error:
        return type(error).__name__ + ' ' + str(error.errno)
for kind in range(16):
    try:
        one, two = socket.socketpair(socket.AF_UNIX, kind)
    except OSError as error:
        print(kind, 'refused', error.errno)
        continue
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, (2).to_bytes(4, 'little'))]
    print(kind, 'sendto', told(one.sendto, b'x', path))
    told(one.sendmsg, [b'x'], rights, 0, path)
    two.recv(9, socket.MSG_DONTWAIT) if kind == 5 else None
    print(kind, 'connect', told(one.connect, path))
    print(kind, 'bind', told(one.bind, path + '.mine'))
    print(kind, 'plain', told(one.send, b'y'), two.recv(1))
print('inet', told(socket.socketpair, socket.AF_INET, socket.SOCK_STREAM))
print('tipc', told(socket.socketpair, 30, socket.SOCK_SEQPACKET))
print('other', [family for family in range(1, 46) if told(socket.socket, family, 2) == 'made'])
"""

BOMB = f"""
import os, time
open('ready', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
made = 0
while made < {MOST_FORKS}:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    made += 1
print(made, flush=True)
os.kill(0, 9)
"""


async def send_datagrams(inside: Inside, home: Path) -> list[str]:
    """What the kernel says of each kind of socket, and what a listener outside heard."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(home / "listener"))
        listener.setblocking(False)
        ran = await inside.run(f"exec python - {home}/listener <<'E'\n{DATAGRAMS}\nE")
        try:
            heard = [f"heard {listener.recv(99)!r}"]
        except BlockingIOError:
            heard = []
    return ran.out.splitlines() + heard + ([ran.err] if ran.err else [])


async def bomb(inside: Inside) -> str:
    """How many forks a bomb could make while the keeper did not look."""
    folder = inside.cage.writable / "upper/home/user"
    running = asyncio.create_task(inside.run(f"cd; exec setsid -w python - <<'E'\n{BOMB}\nE"))
    await async_until((folder / "ready").exists)
    os.kill(inside.cage.pid, signal.SIGSTOP)
    try:
        (folder / "go").touch()
        return (await running).out.strip()
    finally:
        os.kill(inside.cage.pid, signal.SIGCONT)


async def follow_links(fence: Fence, home: Path) -> str:
    """What is in a file of the user after sandboxes were made of links to it."""
    target = home / "of-the-user"
    target.write_text("kept")
    layers = home / "data" / "layers"
    (layers / "lower").mkdir(parents=True)
    (layers / "upper").mkdir()
    (layers / "lower" / "file").symlink_to(target)
    (layers / "upper" / "file").write_text("hostile")
    async with sandbox(
        fence, home / "data", "stacked", layers=(layers / "upper", layers / "lower")
    ):
        pass
    folder = home / "data" / "sandboxes" / "again" / "upper"
    folder.mkdir(parents=True)
    (folder / "etc").symlink_to(home / "etc-of-the-user")
    (home / "etc-of-the-user").mkdir()
    async with sandbox(fence, home / "data", "again"):
        pass
    return target.read_text() + str(os.listdir(home / "etc-of-the-user"))


async def kill_keepers(fence: Fence, data: Path) -> dict[str, object]:
    """What is left when keepers, their guardians or both are killed at any moment."""
    chance = random.Random(20)
    for index in range(ROUNDS):
        mark = f"left-by-round-{index}-of-{os.getpid()}"
        async with contextlib.AsyncExitStack() as stack:
            inside = await stack.enter_async_context(sandbox(fence, data, f"kept{index}"))
            await inside.start(STUBBORN.replace("MARK", mark))
            if index % 5 == 0:
                await async_until(lambda mark=mark: len(_marked(mark)) >= 3)
            if index % 3 == 0:
                await inside.cage.freeze()
            keeper, guardian = inside.cage.pid, _guardian_of(inside.cage.pid)
            victims = [[keeper], [guardian], [guardian, keeper], [keeper, guardian]][index % 4]
            if index % 7 == 0:
                os.kill(inside.cage.pid, signal.SIGTERM)
            await asyncio.sleep(chance.random() * 0.03)
            for victim in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            await inside.cage.wait_dead()
            try:
                await async_until(lambda mark=mark: not _marked(mark), timeout=10)
            except AssertionError:
                return {"rounds": index + 1, "left": _marked(mark)}
    return {"rounds": ROUNDS, "left": []}


def _guardian_of(keeper: int) -> int:
    text = Path(f"/proc/{keeper}/stat").read_text()
    guardian = int(text.rpartition(")")[2].split()[1])
    assert guardian > 1, f"keeper {keeper} has no guardian"
    return guardian


def _marked(mark: str) -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes():
                found.append(path.name)
    return found


def _kill_all_below() -> bool:
    """Kill every process below this one; whether there was none."""
    below = descendants.descendants(os.getpid())
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    descendants.reap()
    return not below


def _be_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {PATIENCE} s")


async def main(home: Path) -> None:
    data = home / "data"
    report = detect(data)
    fence = Fence(data, report, choose(report, "landlock"))
    await fence.start()
    seen: dict[str, object] = {"links": await follow_links(fence, home)}
    limits = {"limits": replace(LIMITS, processes=PROCESSES)}
    async with sandbox(fence, data, "main", **limits) as inside:
        seen["datagrams"] = await send_datagrams(inside, home)
        seen["ceiling"] = (await inside.run("ulimit -Hu; ulimit -u 99999 2>&1")).out.split("\n")[0]
        seen["raised"] = (await inside.run("ulimit -u 99999 && echo raised")).out
    seen["keepers"] = await kill_keepers(fence, data)
    if "bomb" in sys.argv:
        async with sandbox(fence, data, "bombed", **limits) as inside:
            seen["bomb"] = await bomb(inside)
    await fence.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    # Orphans become children of this process, so that it finds them all, however it ends.
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGALRM, _be_late)
    signal.alarm(PATIENCE)
    try:
        asyncio.run(main(Path(sys.argv[1])))
    finally:
        signal.alarm(0)
        until(_kill_all_below, timeout=10, message="Its processes did not end")
