"""Run by a test as an ordinary user: makes sandboxes, prints what it saw as one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import detect
from tests.isolation.inside import LOCAL_PACKAGE, Inside, sandbox
from tests.isolation.kernel.numbered_calls import made_and_refused
from tests.waiting import async_until

COMMANDS = {
    "id": ("user", "id -u"),
    "root": ("root", "id -u"),
    "sudo": ("user", "sudo id -u"),
    "su": ("user", "su -c 'id -u'"),
    "names": ("user", "whoami; sudo whoami; su -c whoami; sudo su user -c whoami"),
    "package": ("user", LOCAL_PACKAGE),
    "python": ("user", "python -c 'print(6 * 7)'"),
    "pip": ("user", "pip --version >/dev/null && echo ok"),
    "usr": ("root", "echo x > /usr/local/bin/mine && cat /usr/local/bin/mine"),
    "chown": ("root", "touch /srv/f && chown 1000:1000 /srv/f && echo ok"),
    "mount": ("root", "mount -t tmpfs x /mnt 2>/dev/null || echo denied"),
    "userns": ("user", "unshare -U true 2>/dev/null || echo denied"),
    "agent": ("root", "cat /proc/1/environ 2>/dev/null || echo denied"),
    "home": ("root", "ls -A /root/.ssh 2>/dev/null; cut -d: -f2 /etc/shadow | sort -u; ls /home"),
    "bomb": (
        "user",
        "python -c 'import os, time\nmade = []\ntry:\n    while True:\n        pid = os.fork()\n"
        "        if pid == 0: time.sleep(60)\n        made.append(pid)\n"
        "except OSError: print(len(made))\nfor pid in made: os.kill(pid, 9)'",
    ),
    "closed": ("user", "mkdir -p ~/a/b; touch ~/a/b/c; chmod 000 ~/a; echo ok"),
    "pids": ("user", "ls /proc | grep -c '^[0-9]*$'"),
}

HOLD = "cd; exec 3>gone; rm gone; head -c 8M /dev/zero >&3; exec sleep 99"


async def _held(fence: Fence, inside: Inside) -> int | None:
    """The bytes in files without a name, once all are written."""
    held = (await fence.open_files(inside.cage)).unnamed_bytes
    return held if held >= 8 << 20 else None


async def main(data_dir: Path) -> None:
    """Make a sandbox, run the commands, remove it."""
    report = detect(data_dir)
    fence = Fence(data_dir, report, report.tier)
    await fence.start()
    seen: dict[str, object] = {"tier": report.tier, "users": report.users}
    async with sandbox(fence, data_dir, "plain") as inside:
        for name, (user, command) in COMMANDS.items():
            ran = await inside.run(command, user=user)
            seen[name] = ran.out.strip() or ran.err.strip()
        seen["calls"] = json.loads((await inside.run(made_and_refused(), user="root")).out)
        await inside.start(HOLD)
        seen["held"] = await async_until(lambda: _held(fence, inside), step=0.1)
        writable = inside.cage.writable
    seen["left"] = writable.exists()
    await fence.stop()
    print(json.dumps(seen))


asyncio.run(main(Path(sys.argv[1])))
