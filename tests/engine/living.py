"""Short forms for tests with real sandboxes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.protocol.platform import NewSandbox
from tests.engine.live.running import bash, listen


def request(**fields: Any) -> NewSandbox:
    return msgspec.convert({"templateID": "base", **fields}, NewSandbox)


async def create(engine: Engine, **fields: Any) -> SandboxRow:
    return await engine.sandboxes.create(request(**fields))


async def run(engine: Engine, sandbox_id: str, script: str) -> str:
    """What a script prints."""
    sandbox = await engine.sandboxes.live(sandbox_id)
    process = await sandbox.processes.start(bash(script), user=None, timeout=20)
    heard = await listen(process.subscribe())
    return (heard.stdout + heard.stderr).decode().strip()


async def start(engine: Engine, sandbox_id: str, script: str) -> int:
    """Start a script in the background; its pid inside."""
    sandbox = await engine.sandboxes.live(sandbox_id)
    process = await sandbox.processes.start(bash(script), user=None, timeout=None)
    return process.pid


def messages(engine: Engine, sandbox_id: str) -> list[str]:
    return [entry.message for entry in engine.observations.logs(sandbox_id)]


def names_of_layers(data_dir: Path) -> set[str]:
    """The sandboxes that have a writable layer."""
    return {name.partition(".")[0] for name in os.listdir(data_dir / "sandboxes")}


def is_known(engine: Engine, sandbox_id: str) -> bool:
    return any(row.sandbox_id == sandbox_id for row in engine.sandboxes.rows())
