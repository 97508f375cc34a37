"""Run by a test as the user of a tier: what a sandbox finds of secrets beside its Python."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.root import stock_plan
from sbx_jupyter.isolation.tiers import choose, detect
from tests.isolation.inside import sandbox

if TYPE_CHECKING:
    from tests.isolation.inside import Inside

SECRETS = {
    "pip.conf": 0o644,
    ".condarc": 0o644,
    "conda-meta/history": 0o644,
    "envs/other/lib/module.py": 0o644,
    "pkgs/package/module.py": 0o644,
    "etc/jupyter/server.json": 0o644,
    "share/.netrc": 0o644,
    "share/server.pem": 0o644,
    "share/another/pyvenv.cfg": 0o644,
    "share/another/lib/module.py": 0o644,
    "lib/private": 0o600,
    "lib/of-group": 0o640,
    "lib/closed/inner": 0o644,
    "bin/only-executed": 0o711,
}
PUBLIC = ("lib/module.py", "share/data/table", "envs/mine/lib/module.py", "etc/fonts.conf")
MARK = "PRIVATE KEY of the host"


def plant(prefix: Path) -> None:
    """Make a prefix as conda does, with secrets in it."""
    for name in PUBLIC:
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text("public")
    for name, mode in SECRETS.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(MARK)
        (prefix / name).chmod(mode)
    (prefix / "lib/closed").chmod(0o700)


LOCK = """
import fcntl, os, sys
for path in sys.argv[2:]:
    kept = open(path)
    try: fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: print(path)
    globals()[path] = kept
if sys.argv[1] == "hold":
    open(os.path.expanduser("~/holds"), "w").close()
    sys.stdin.read()
"""


async def try_to_signal(one: Inside, other: Inside, paths: list[str]) -> list[str]:
    """The files by whose locks one sandbox can tell another something."""
    lock, files = f"python -c '{LOCK}'", " ".join(paths)
    held = await one.run(
        f"(sleep 1000 | {lock} hold {files}) > /dev/null 2>&1 & "
        "until [ -e ~/holds ]; do sleep 0.01; done; echo held"
    )
    assert held.out == "held\n", held.err
    return (await other.run(f"{lock} try {files}")).out.split()


async def main(home: Path, wanted: str) -> None:
    """Show two planted prefixes to a sandbox, one of them writable, and look for the secrets."""
    data = home / "data"
    prefixes = [home / "base", home / "prefix"]
    for prefix in prefixes:
        plant(prefix)
    stock = stock_plan.plan_stock

    def plan_with_prefixes(**options: Any) -> stock_plan.StockPlan:
        plan = stock(**options)
        base, prefix = (stock_plan.HostTree(str(p), p.name == "base") for p in prefixes)
        needed = (*plan.needed, *(f"{p}/envs/mine" for p in prefixes))
        return replace(plan, trees=(*plan.trees, base, prefix), needed=needed)

    stock_plan.plan_stock = plan_with_prefixes
    report = detect(data)
    fence = Fence(data, report, choose(report, wanted))
    await fence.start()
    where = " ".join(map(str, prefixes))
    seen: dict[str, object] = {"users": report.users}
    async with sandbox(fence, data, "seeks") as inside:
        for user in ("root", "user"):
            ran = await inside.run(f"grep -rls '{MARK}' {where}", user=user)
            seen[f"found by {user}"] = ran.out.split()
            names = " ".join(f"{prefix}/{name}" for prefix in prefixes for name in SECRETS)
            ran = await inside.run(f"cat {names} 2>/dev/null", user=user)
            seen[f"read by {user}"] = ran.out
            public = " ".join(f"{prefix}/{name}" for prefix in prefixes for name in PUBLIC)
            seen[f"public to {user}"] = (await inside.run(f"cat {public}", user=user)).out
        later = prefixes[1] / "lib/later"
        later.touch(0o600)
        later.write_text("made later")
        seen["made later"] = (await inside.run(f"cat {later}", user="root")).out
        ran = await inside.run("python -c 'import json; print(6 * 7)'")
        seen["python"] = ran.out.strip()
        async with sandbox(fence, data, "hears") as other:
            shared = [*(f"{prefix}/lib/module.py" for prefix in prefixes), "/usr/bin/env"]
            seen["locks seen"] = await try_to_signal(inside, other, shared)
    await fence.stop()
    print(json.dumps(seen))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
