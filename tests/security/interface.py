"""Attacks through the engine's interface: planted links, hostile names, forged answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.errors import SbxError
from tests.security.attacks import NAMESPACES, TIERS
from tests.security.surroundings import MARK
from tests.waiting import PATIENCE, async_until

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox
    from tests.security.siege import Siege

Run = Callable[["Siege", "AsyncSandbox"], Awaitable[str | None]]


@dataclass(frozen=True)
class Hostility:
    """An attack that needs the outside too; ``run`` raises ``AssertionError`` when it works."""

    name: str
    group: str
    run: Run
    tiers: tuple[str, ...] = TIERS


ATTACKS: list[Hostility] = []


def hostility(name: str, group: str, tiers: tuple[str, ...] = TIERS) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        ATTACKS.append(Hostility(name, group, run, tiers))
        return run

    return register


_LINKS = "read the host by links in the file interface"
_FORGED = "forge answers and files that the engine reads"
_NAMES = "attack the reader by names"


async def plant(siege: Siege, box: AsyncSandbox, name: str, target: str) -> None:
    await run(box, f"mkdir -p ~/links; ln -sfn '{target}' ~/links/{name}")


async def run(box: AsyncSandbox, script: str, user: str | None = None) -> str:
    return (await box.commands.run(script, timeout=40, user=user)).stdout


async def refused(work: Awaitable[object]) -> str:
    """The error that the engine answers with; what it gives must not hold the secret."""
    try:
        got = await work
    except SbxError as error:
        assert MARK not in str(error)
        return f"{error.code}: {error.message}"
    assert MARK not in str(got), f"the engine gave {str(got)[:200]}"
    return "gave nothing of the host"


@hostility("download a secret through a link", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "down", str(siege.home / "secret"))
    return await refused(box.files.read("links/down"))


@hostility("download a secret through a linked directory", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "folder", str(siege.home))
    return await refused(box.files.read("links/folder/secret"))


@hostility("download a secret by dots", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await refused(box.files.read("../" * 30 + str(siege.home / "secret").lstrip("/")))


@hostility("download a secret through /proc/self/root", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await refused(box.files.read(f"/proc/self/root{siege.home}/secret"))


@hostility("download the agent's environment", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    answers = [await refused(box.files.read(f"/proc/self/{name}")) for name in ("environ", "maps")]
    assert all("LD_" not in answer for answer in answers)
    return answers[0]


@hostility("upload through a link", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "up", str(siege.home / "secret"))
    return await refused(box.files.write("links/up", "overwritten"))


@hostility("upload below a linked directory", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "upfolder", str(siege.home))
    answer = await refused(box.files.write("links/upfolder/planted", "x"))
    assert not (siege.home / "planted").exists()
    return answer


@hostility("move a file out of the sandbox", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "out", str(siege.home))
    await box.files.write("mine", "x")
    answer = await refused(box.files.rename("mine", "links/out/planted"))
    assert not (siege.home / "planted").exists()
    return answer


@hostility("move a file of the host into the sandbox", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "from", str(siege.home))
    answer = await refused(box.files.rename("links/from/public", "stolen"))
    assert (siege.home / "public").exists()
    return answer


@hostility("compose from a file of the host", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "part", str(siege.home / "public"))
    await refused(compose(siege, box, ["links/part"], "composed"))
    assert (siege.home / "public").exists()
    return await refused(box.files.read("composed"))


async def compose(siege: Siege, box: AsyncSandbox, sources: list[str], target: str) -> str:
    import httpx

    headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49983"}
    if token := box.record.envd_access_token:
        headers["X-Access-Token"] = token
    home = "/home/user/"
    body = {"source_paths": [home + s for s in sources], "destination": home + target}
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        answer = await http.post(
            f"{siege.config.api_url}/files/compose", json=body, headers=headers
        )
    return answer.text


@hostility("list a directory of the host", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "list", str(siege.home))
    answer = await refused(box.files.list("links/list"))
    assert "service.sock" not in answer
    return answer


@hostility("watch the sandboxes of the host", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "watch", str(siege.data / "sandboxes"))

    async def watch() -> None:
        async with asyncio.timeout(2):
            watching = await box.files.watch("links/watch")
            await siege.sibling.files.write("noise", "x")
            await siege.create_and_kill()
            async for event in watching:
                raise AssertionError(f"it saw {event}")

    try:
        return await refused(watch())
    except TimeoutError:
        return "saw nothing"


@hostility("remove a directory of the host", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await plant(siege, box, "gone", str(siege.home))
    answer = await refused(box.files.remove("links/gone/public"))
    await refused(box.files.remove("links"))
    assert (siege.home / "public").exists()
    return answer


@hostility("win a race between a link and a download", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    target = siege.home / "secret"
    await box.files.write("race/mine", "mine")
    racer = await box.commands.run(
        f"cd race; while :; do ln -sfn '{target}' x; ln -f mine x; done",
        background=True,
        timeout=30,
    )
    try:
        for _ in range(60):
            await refused(box.files.read("race/x"))
    finally:
        await box.commands.kill(racer.pid)
    return "60 downloads gave nothing"


@hostility("download a device or a pipe that never ends", _LINKS)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    await run(box, "mkfifo ~/pipe; ln -sfn /dev/zero ~/endless")
    async with asyncio.timeout(5):
        answers = [await refused(box.files.read(name)) for name in ("pipe", "endless")]
        answers.append(await refused(box.files.write("pipe", "x")))
    assert all(answer.startswith("invalid_argument") for answer in answers), answers
    return answers[0]


@hostility("terminal escapes in names", _NAMES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    code = (
        "import os; d = os.path.expanduser('~/names'); os.makedirs(d, exist_ok=True)\n"
        "names = [b'\\x1b]0;pwned\\x07', b'\\x1b[2J', b'a\\nb', b'<img src=x onerror=alert(1)>',"
        " b'\\xff\\xfe', b'\\xe2\\x80\\xaegnp.exe', b'-rf', b'$(reboot)', b'x' * 255]\n"
        "for n in names: open(os.path.join(os.fsencode(d), n), 'w').close()"
    )
    await box.commands.run(["python3", "-c", code])
    found = {entry.name for entry in await box.files.list("names")}
    assert {"\x1b]0;pwned\x07", "a\nb", "$(reboot)", "-rf"} <= found
    assert len(found) == 9
    return "names are data"


@hostility("headers in a name", _NAMES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    name = "a\r\nSet-Cookie: x=y\r\n\r\n<script>"
    await box.files.write(f"heads/{name}", "inside")
    assert await box.files.read(f"heads/{name}") == "inside"
    return "one answer, one body"


@hostility("replace the table of users by a pipe", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await with_passwd(siege, "rm -f $P; mkfifo $P")


@hostility("replace the table of users by nonsense", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await with_passwd(siege, "head -c 100000 /dev/urandom > $P")


@hostility("make the table of users huge", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await with_passwd(siege, "rm -f $P; truncate -s 40M $P; echo >> $P")


@hostility("replace the table of users by a directory", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    return await with_passwd(siege, "rm -f $P; mkdir $P")


@hostility("map every id to a negative or an enormous number", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    lines = (
        "user:x:-1:-1::/:\\nroot:x:99999999999999999999:4294967295::/:\\nuser:x:4294967295:0::/:"
    )
    return await with_passwd(siege, f"printf '{lines}' > $P")


async def with_passwd(siege: Siege, script: str) -> str:
    """Spoil the sandbox's ``/etc/passwd``: it may refuse its users, but nothing else changes."""
    async with await siege.create() as victim:
        place = 'P="${TMPDIR:+${TMPDIR%/tmp}}/etc/passwd"; '
        await run(victim, place + script, user="root")
        async with asyncio.timeout(10):
            answer = await refused(victim.commands.run("id"))
            await refused(victim.files.list("/tmp"))
            await siege.check_health()
    return answer


@hostility("replace the shell", _FORGED, tiers=NAMESPACES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with await siege.create() as victim:
        await run(victim, "rm -f /usr/bin/bash; ln -s /dev/zero /usr/bin/bash", user="root")
        answer = await refused(victim.commands.run("id"))
        assert await victim.is_running()
    return answer


@hostility("preload a library by an environment variable", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    envs = {"LD_PRELOAD": "/home/user/evil.so", "BASH_ENV": "/home/user/evil", "PYTHONHOME": "/x"}
    await box.files.write("evil.so", b"\x7fELF garbage")
    async with await siege.create(envs=envs) as victim:
        assert (await victim.files.write("x", "y")).name == "x"
    assert siege.engine is not None
    environment = await asyncio.to_thread(open_environment, siege.engine.pid)
    assert b"evil" not in environment
    return "only its own processes see it"


def open_environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


@hostility("kill and stop the first process", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with await siege.create() as victim:
        first = siege.context(victim)["first"]
        script = f"kill -STOP {first}; kill -9 {first}"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await refused(victim.commands.run(script, user="root"))
        await asyncio.sleep(0.3)
        # In a domain without namespaces this ends the sandbox itself, and nothing else.
        if siege.tier != "landlock":
            done = await victim.commands.run("echo alive")
            assert done.stdout == "alive\n"
    await siege.check_health()
    return "it goes on, or only its own sandbox ends"


@hostility("kill everybody", _FORGED)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with await siege.create() as victim:
        await refused(victim.commands.run("kill -9 -1", user="root"))
    await siege.check_health()
    return "only its own"


@hostility("outlive the sandbox", "outlive the sandbox")
async def _(siege: Siege, box: AsyncSandbox) -> str:
    mark = f"7{os.getpid()}"
    victim = await siege.create()
    script = (
        f"trap '' HUP TERM INT; setsid sleep {mark} & nohup sleep {mark} >/dev/null 2>&1 & "
        f"(setsid sh -c '(trap \"\" TERM HUP; sleep {mark}; sleep {mark}) &' &) ; "
        f'python3 -c "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n'
        f"  os.execvp('sleep', ['sleep', '{mark}'])\" & sleep 1; echo up"
    )
    await victim.commands.run(script, background=True, timeout=300)
    await async_until(
        lambda: len(sleeping(mark)) >= 4, message="the processes did not start", step=0.05
    )
    await victim.kill()
    await victim.aclose()
    await async_until(lambda: not sleeping(mark), message="processes are still there", step=0.05)
    return "all are gone"


def sleeping(mark: str) -> list[str]:
    found: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and mark.encode() in words:
            found.append(pid)
    return found


@hostility("keep a planted redirection over a restart of the sandbox", "escape", tiers=NAMESPACES)
async def _(siege: Siege, box: AsyncSandbox) -> str:
    async with await siege.create() as victim:
        code = (
            "import os; os.makedirs('/srv/d', exist_ok=True)\n"
            "for n in ('user.overlay.redirect', 'user.overlay.origin', 'user.overlay.metacopy',"
            " 'user.overlay.opaque'):\n"
            "    try: os.setxattr('/srv/d', n, b'/../../../etc')\n"
            "    except OSError: pass\n"
            "os.mkdir('/srv/w'); os.mknod('/srv/w/x', 0o20000, 0)"
        )
        await victim.commands.run(["python3", "-c", code], user="root")
        await victim.pause(memory=False)
        await victim.resume(timeout=300)
        listed = await run(victim, "ls -A /srv/d; cat /srv/d/passwd", user="root")
        assert "passwd" not in listed, listed
        assert "alive" in await run(victim, "echo alive")
    return json.dumps(listed)
