"""Everything that a hostile sandbox does at once: all programs that use something up.

Each program starts again when it was ended, until the time is over. Those that take all processes
begin last, because nothing else can start beside them.
"""

from __future__ import annotations

import json
import textwrap

from tests.security import exhaustion, flooding, holding
from tests.security.outside import FLOOD_IN_FLIGHT

LATE = 20.0
"""Seconds after which those begin that take all processes."""

_DRIVER = """
import json, subprocess, sys, time
programs = json.load(open(sys.argv[1]))
began, running, last = time.time(), {}, 0
while time.time() < began + float(sys.argv[2]):
    for name, (delay, code) in programs.items():
        if time.time() < began + delay: continue
        if name in running and running[name].poll() is None: continue
        try:
            running[name] = subprocess.Popen(
                [sys.executable, '-c', code], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        except OSError: time.sleep(0.05)
    time.sleep(0.2)
"""


def programs(tier: str) -> dict[str, str]:
    """The programs by their name, of the tier ``tests.security`` calls so."""
    rows = (*exhaustion.ATTACKS, *flooding.ATTACKS)
    found = {row.name: textwrap.dedent(row.code) for row in rows if row.code and tier in row.tiers}
    found |= {
        f"{resource}: {name}": holding.program(body, 12)
        for resource, bodies in (("disk", holding.DISK), ("memory", holding.MEMORY))
        for name, body in bodies.items()
    }
    found["descriptors in flight"] = FLOOD_IN_FLIGHT
    return found


def files(tier: str) -> dict[str, bytes]:
    """What is to be written into the sandbox: the driver and its programs."""
    listed = {
        name: [LATE if name.startswith("processes") else 0, code]
        for name, code in programs(tier).items()
    }
    return {"driver.py": _DRIVER.encode(), "programs.json": json.dumps(listed).encode()}
