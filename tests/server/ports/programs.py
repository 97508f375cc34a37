"""Starts the program behind the port of a sandbox."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("port_program.py")
PORT = 8000


async def start_program(inside, port=PORT, delay=0.0):
    await inside.files.write("/tmp/program.py", PROGRAM.read_text())
    await inside.commands.run(
        f"exec python3 /tmp/program.py {port} {delay}", background=True, timeout=None
    )
