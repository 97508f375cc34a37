"""Lists all processes of a running sandbox and the ports that they listen on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation import process_table
from sbx_jupyter.protocol.processes import ListeningPort, SandboxProcess
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, PROXY_PORT, RUNTIME_PORT

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.isolation.process_table import SeenPort, SeenProcess

_BETWEEN: Final = 0.2
"""Seconds between the two looks at the processor time."""

_OURS: Final = frozenset({PROXY_PORT, RUNTIME_PORT, INTERPRETER_PORT})
_TICKS: Final = 1e9 / process_table.procfs.TICK_NS


async def list_processes(sandbox: Sandbox) -> list[SandboxProcess]:
    """The processes of a sandbox but its agent, parents before children; takes 0.2 s."""
    cage = sandbox.cage
    members = await asyncio.to_thread(cage.members)
    earlier = await asyncio.to_thread(process_table.own_ticks, members)
    await asyncio.sleep(_BETWEEN)
    seen = await asyncio.to_thread(process_table.processes, cage.pid, members)
    return [_record(each, earlier) for each in seen]


async def list_ports(sandbox: Sandbox) -> list[ListeningPort]:
    """The TCP ports on which programs of a sandbox listen, the lowest first."""
    if sandbox.has_kept_ports:
        numbers = await sandbox.kept_ports()
        return [ListeningPort(port=port, address="127.0.0.1") for port in sorted(numbers - _OURS)]
    seen = await asyncio.to_thread(_ports_with_programs, sandbox)
    return [
        ListeningPort(port=each.port, address=each.address, program=each.program, pid=each.pid)
        for each in seen
        if each.port not in _OURS
    ]


async def port_numbers(sandbox: Sandbox) -> frozenset[int]:
    """Only the numbers of ``list_ports``; reads two small files of the kernel."""
    if sandbox.has_kept_ports:
        return frozenset(await sandbox.kept_ports()) - _OURS
    seen = await asyncio.to_thread(process_table.listening, sandbox.cage.pid)
    return frozenset(each.port for each in seen) - _OURS


def _ports_with_programs(sandbox: Sandbox) -> list[SeenPort]:
    """Blocks."""
    return process_table.listening_programs(sandbox.cage.pid, sandbox.cage.members())


def _record(seen: SeenProcess, earlier: dict[int, int]) -> SandboxProcess:
    stat = seen.stat
    used = stat.own_ticks - earlier.get(stat.pid, stat.own_ticks)
    return SandboxProcess(
        pid=seen.pid,
        parent=seen.parent,
        name=seen.name,
        args=list(seen.args),
        state=stat.state,
        cpu_seconds=round(stat.own_ticks / _TICKS, 2),
        cpu_pct=round(max(used, 0) / _TICKS / _BETWEEN * 100, 1),
        memory_bytes=stat.resident_bytes,
        threads=stat.threads,
        age_seconds=round(seen.age_seconds, 1),
    )
