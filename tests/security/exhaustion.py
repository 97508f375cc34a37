"""Attacks that use up what there is, while the engine and another sandbox must go on answering."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from tests.security.attacks import LANDLOCK, NAMESPACES, TIERS
from tests.security.interface import Hostility, Run, refused

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox
    from tests.security.siege import Siege

ATTACKS: list[Hostility] = []
PROCESSES = 128
"""What a sandbox may have in the siege."""

_PATIENCE = 4.0
"""Seconds in which the engine and another sandbox must answer meanwhile; the machine is small."""


def exhaust(name: str, tiers: tuple[str, ...] = TIERS) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        ATTACKS.append(Hostility(name, "exhaust", run, tiers))
        return run

    return register


@contextlib.asynccontextmanager
async def attacked(siege: Siege) -> AsyncIterator[AsyncSandbox]:
    """A sandbox to attack from, while health is looked at; at the end it can be killed."""
    async with await siege.create() as victim:
        worst = [0.0]

        async def look() -> None:
            while True:
                worst[0] = max(worst[0], await siege.check_health())
                await asyncio.sleep(0.2)

        looking = asyncio.create_task(look())
        try:
            yield victim
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        assert worst[0] < _PATIENCE, f"others waited {worst[0]:.1f} s"


def python(code: str) -> list[str]:
    return ["python3", "-c", code]


async def attack(victim: AsyncSandbox, code: str, timeout: float = 6) -> str:
    """Run Python for some seconds at most; what it printed or how it was ended."""
    try:
        done = await victim.commands.run(python(code), timeout=timeout)
    except Exception as error:
        return type(error).__name__
    return (done.stdout + done.stderr)[-300:] + f" ({done.exit_code})"


@exhaust("processes: a fork bomb")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        return await attack(
            victim,
            "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: pass\n"
            "    except OSError: time.sleep(0.01)",
            timeout=3,
        )


@exhaust("processes: threads")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import threading, time\nn = 0\ntry:\n    while n < 5000:\n"
            "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1\n"
            "except RuntimeError: pass\nprint(n < 200, n, flush=True)\nimport os; os._exit(0)",
        )
        assert said.startswith("True"), said
        return said


@exhaust("processes: a fork bomb beside which another sandbox forks")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        # Children that stay: the place is taken for as long as the other one tries.
        bomb = asyncio.create_task(
            attack(
                victim,
                "import os, time\nmade = 0\nend = time.time() + 3\nwhile time.time() < end:\n"
                "    try:\n        if os.fork() == 0: time.sleep(5); os._exit(0)\n"
                "        made += 1\n    except OSError: time.sleep(0.01)\nprint('made', made)",
                timeout=12,
            )
        )
        await asyncio.sleep(1)
        done = await siege.sibling.commands.run(
            python(
                "import os, threading\nfor _ in range(100):\n    pid = os.fork()\n"
                "    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)\n"
                "    t = threading.Thread(target=int); t.start(); t.join()\nprint('forked')"
            ),
            timeout=20,
        )
        said = await bomb
        assert done.stdout == "forked\n", done.stderr[-300:]
        # Either the kernel refused more, or the keeper ended it.
        made = said.removeprefix("made ").split()[0]
        assert said.endswith("(-1)") or 64 < int(made) < 2 * PROCESSES, said
        return said


@exhaust("processes: started through the interface")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        refusals = 0
        for _ in range(160):
            try:
                handle = await victim.commands.run("sleep 60", background=True, timeout=60)
            except Exception:
                refusals += 1
            else:
                await handle.disconnect()
        # Where it is counted per id, the agent is of another one; and a process that is refused
        # between its fork and its program is listed until it has ended.
        deadline = asyncio.get_running_loop().time() + 15
        while (alive := len(await victim.commands.list())) > PROCESSES + 1:
            assert asyncio.get_running_loop().time() < deadline, alive
            await asyncio.sleep(0.2)
        return f"{alive} of 160 run, {refusals} were refused"


@exhaust("memory: one process")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        code = "x = []\nwhile len(x) < 900: x.append(b'x' * (1 << 20))\nprint('every' + 'thing')"
        said = await attack(victim, code, timeout=15)
        assert "everything" not in said, said
        return said


@exhaust("memory: many processes")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os, time\nkids = []\nfor _ in range(12):\n    pid = os.fork()\n"
            "    if pid == 0:\n        x = os.urandom(1 << 20) * 100; time.sleep(4); os._exit(0)\n"
            "    kids.append(pid)\nleft = [k for k in kids if os.waitpid(k, 0)[1] == 0]\n"
            "print('left', len(left))",
            timeout=20,
        )
        assert "left 12" not in said, said
        logs = [entry.message async for entry in siege.logs(victim)]
        assert any("out of memory" in text for text in logs), logs
        return said


@exhaust("memory: many processes that grow fast")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        with siege.memory_peak(victim) as peak:
            said = await attack(
                victim,
                "import os, time\nfor _ in range(12):\n    if os.fork() == 0:\n        x = []\n"
                "        for _ in range(50): x.append(b'x' * (3 << 20)); time.sleep(0.2)\n"
                "        os._exit(0)\n"
                "print('left', [os.wait()[1] for _ in range(12)].count(0))",
                timeout=30,
            )
        assert "left 12" not in said, said
        assert peak[0] < 512 << 20, f"{peak[0] >> 20} MiB, twice the limit"
        return f"at most {peak[0] >> 20} of 256 MiB; {said}"


@exhaust("processor: spinning")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        return await attack(
            victim, "import os\nfor _ in range(5): os.fork()\nwhile True: pass", timeout=3
        )


@exhaust("processor: more processes than processors")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os, time\n"
            "try: os.sched_setaffinity(0, set(range(64)))\nexcept OSError: pass\n"
            "os.system('taskset -pc 0-63 $$ >/dev/null 2>&1')\n"
            "try: os.nice(-20)\nexcept OSError: pass\n"
            "began = time.monotonic(); kids = []\n"
            "for n in range(8):\n    pid = os.fork()\n    if pid == 0:\n"
            "        try: os.sched_setaffinity(0, {n % 2})\n        except OSError: pass\n"
            "        while time.monotonic() < began + 4: pass\n        os._exit(0)\n"
            "    kids.append(pid)\nfor pid in kids: os.waitpid(pid, 0)\n"
            "used = os.times(); print((used[2] + used[3]) / (time.monotonic() - began))",
            timeout=20,
        )
        assert 0.02 < float(said.split()[0]) < 1.15, said
        return said


@exhaust("the keeper's time: a flood of calls that it answers", tiers=LANDLOCK)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        flood = asyncio.create_task(
            attack(
                victim,
                "import os, threading, time\nthreading.stack_size(1 << 18)\n"
                "own = os.path.expanduser('~/own')\nopen(own, 'w').close(); n = [0] * 50\n"
                "def flood(k):\n    for i in range(200):\n"
                "        try: os.chmod(own if i % 2 else '/etc/passwd', 0o600)\n"
                "        except OSError: n[k] += 1\n"
                "all = [threading.Thread(target=flood, args=(k,)) for k in range(50)]\n"
                "began = time.monotonic()\n"
                "for t in all: t.start()\nfor t in all: t.join()\n"
                "print(sum(n), time.monotonic() - began)",
                timeout=40,
            )
        )
        # The keeper goes on taking in new programs of the flooded sandbox.
        for _ in range(5):
            done = await victim.commands.run("chmod 700 . && echo in", timeout=30)
            assert done.stdout == "in\n", done.stderr
        said = await flood
        assert said.startswith("5000 "), said
        return said


@exhaust("disk: one file")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os\nf = open(os.path.expanduser('~/big'), 'wb', buffering=0)\n"
            "for _ in range(300): f.write(b'x' * (1 << 20))\nprint('every' + 'thing')",
            timeout=15,
        )
        assert "everything" not in said, said
        return said


@exhaust("disk: many files")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os, time\nfor i in range(400):\n"
            "    with open(os.path.expanduser(f'~/f{i}'), 'wb') as f: f.write(b'x' * (1 << 20))\n"
            "    time.sleep(0.02)\nprint('every' + 'thing')",
            timeout=25,
        )
        assert "everything" not in said, said
        logs = [entry.message async for entry in siege.logs(victim)]
        assert any("disk" in text for text in logs), logs
        over = await refused(victim.files.write("more", b"x" * 100))
        assert over.startswith("resource_exhausted") or "space" in over, over
        return said


@exhaust("disk: a file without a name")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os, time\nfs = []\nfor i in range(8):\n"
            "    p = os.path.expanduser(f'~/f{i}'); f = open(p, 'wb', buffering=0)\n"
            "    os.unlink(p); fs.append(f)\n    for _ in range(40): f.write(b'x' * (1 << 20))\n"
            "time.sleep(6); print('every' + 'thing')",
            timeout=20,
        )
        assert "everything" not in said, said
        return said


@exhaust("disk: inodes")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os, time\nd = os.path.expanduser('~/d'); os.mkdir(d)\n"
            "for i in range(100000):\n    open(f'{d}/{i}', 'w').close()\n"
            "    if i % 1000 == 0: time.sleep(0.1)\nprint('every' + 'thing')",
            timeout=25,
        )
        assert "everything" not in said, said
        return said


@exhaust("disk: shared memory and /run", tiers=NAMESPACES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim, "f = open('/dev/shm/x', 'wb')\nfor _ in range(200): f.write(b'x' * (1 << 20))"
        )
        assert "No space" in said or "(137)" in said or "(-9)" in said, said
        return said[-60:]


@exhaust("descriptors")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        said = await attack(
            victim,
            "import os\nn = 0\ntry:\n    while n < 100000: os.dup(0); n += 1\n"
            "except OSError as e: print(n <= 1024, e)",
        )
        assert said.startswith("True"), said
        return said


@exhaust("buffers: output without an end that nobody reads")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    before = siege.engine_memory()
    async with attacked(siege) as victim:
        streams = [await victim.commands.start("yes", timeout=8) for _ in range(4)]
        await asyncio.sleep(2)
        grown = siege.engine_memory() - before
        for stream in streams:
            await stream.aclose()
        assert grown < 150 << 20, f"the engine grew by {grown >> 20} MiB"
        return f"the engine grew by {grown >> 20} MiB"


@exhaust("buffers: a terminal that scrolls without an end")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        pty = await victim.pty.create(80, 24, timeout=20)
        await pty.send(b"yes '\x1b[2J\x1b]0;x\x07'\n")
        await asyncio.sleep(2)
        folder = siege.data / "run" / victim.sandbox_id
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        await pty.kill()
        assert size < 4 << 20, f"{size >> 20} MiB of scrollback"
        return f"{size >> 10} KiB are kept"


@exhaust("log: refused connections", tiers=NAMESPACES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        await attack(
            victim,
            "import socket\nfor i in range(1500):\n    try:\n"
            "        s = socket.create_connection(('127.0.0.1', 49982), 2)\n"
            "        s.sendall(b'CONNECT 10.0.0.1:%d HTTP/1.1\\r\\n\\r\\n' % (i + 1)); s.recv(99)\n"
            "    except OSError: pass",
            timeout=8,
        )
        count = len([entry async for entry in siege.logs(victim)])
        assert count <= 1000, count
        return f"{count} entries are kept"


@exhaust("connections to the proxy", tiers=NAMESPACES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        return await attack(
            victim,
            "import socket, time\nheld = []\nend = time.time() + 4\nn = 0\n"
            "while time.time() < end and n < 100000:\n    try:\n"
            "        held.append(socket.create_connection(('127.0.0.1', 49982), 1)); n += 1\n"
            "    except OSError: held.clear()\n    if len(held) > 900: held.clear()\nprint(n)",
            timeout=8,
        )


@exhaust("watchers: a storm of changes")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    before = siege.engine_memory()
    async with attacked(siege) as victim:
        await victim.files.make_dir("storm")
        watch = await victim.files.watch("storm", recursive=True)
        await attack(
            victim,
            "import os, time\nd = os.path.expanduser('~/storm'); end = time.time() + 3; i = 0\n"
            "while time.time() < end:\n    i += 1; p = f'{d}/{i % 500}'\n"
            "    if i % 3: open(p, 'w').close()\n    else: os.path.exists(p) and os.unlink(p)",
        )
        grown = siege.engine_memory() - before
        await watch.aclose()
        assert grown < 150 << 20, f"the engine grew by {grown >> 20} MiB"
        return f"the engine grew by {grown >> 20} MiB"


@exhaust("the agent's time: an enormous tree")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with attacked(siege) as victim:
        made = await attack(
            victim,
            "import os\nfor a in range(20):\n    d = os.path.expanduser(f'~/t/{a}')\n"
            "    os.makedirs(d)\n    open(f'{d}/0', 'w').close()\n"
            "    for b in range(1500): os.link(f'{d}/0', f'{d}/{b + 1}')\nprint('made')",
            timeout=30,
        )
        assert "made" in made, made
        meanwhile = 0
        works = [asyncio.ensure_future(refused(victim.files.list("t", 3))) for _ in range(3)]
        works.append(asyncio.ensure_future(refused(victim.files.watch("t", recursive=True))))
        works.append(asyncio.ensure_future(refused(victim.files.remove("t"))))
        while not all(work.done() for work in works):
            await victim.files.exists("/tmp")
            meanwhile += not all(work.done() for work in works)
            await asyncio.sleep(0.01)
        assert meanwhile >= 2, f"{meanwhile} calls were answered meanwhile"
        return f"{meanwhile} other calls were answered meanwhile"
