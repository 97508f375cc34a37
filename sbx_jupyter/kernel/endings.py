"""Finds out why a kernel in a sandbox has ended, in words and for the page."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from sbx_jupyter.errors import NotFoundError, SbxError

if TYPE_CHECKING:
    from sbx_jupyter.client.sandbox import AsyncSandbox

ENDINGS: Final = "sbx-jupyter:kernel-ended"
"""The id of the comm on which the page hears of it."""

_KILLED: Final = 128 + 9
_LAST_ENTRIES: Final = 20

Cause = Literal["memory", "time", "other"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a kernel ended; ``memory_mb`` is what its sandbox has, where that is known."""

    cause: Cause
    text: str
    files_kept: bool = True
    memory_mb: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "cause": self.cause,
            "filesKept": self.files_kept,
            "memoryMB": self.memory_mb,
        }


async def explain(sandbox: AsyncSandbox, status: int, *, is_lost: bool) -> Ending:
    """Say why a kernel ended with a status; ``is_lost`` if its zygote ended as well."""
    if is_lost:
        return await _loss(sandbox)
    if status == _KILLED:
        memory = None
        with contextlib.suppress(SbxError):
            memory = (await sandbox.info()).memory_mb
        amount = "" if memory is None else f" ({memory} MiB)"
        return Ending(
            "memory",
            f"The kernel was killed. Usually its sandbox ran out of memory{amount}: use less of "
            "it, or restart in a larger sandbox. The files are kept",
            memory_mb=memory,
        )
    how = f"by signal {status - 128}" if status > 128 else f"with status {status}"
    return Ending("other", f"The kernel ended {how}; its sandbox and the files go on")


async def _loss(sandbox: AsyncSandbox) -> Ending:
    """Find out why the process that starts the kernels is gone."""
    ran_out = await _ran_out_of_time(sandbox)
    try:
        info = await sandbox.info()
    except NotFoundError as error:
        if ran_out:
            text = "The sandbox of this kernel reached its time limit and has ended, and its files"
            return Ending("time", f"{text} with it", files_kept=False)
        text = f"The sandbox of this kernel has ended, and its files with it: {error}"
        return Ending("other", text, files_kept=False)
    except SbxError as error:
        return Ending("other", f"The connection to the sandbox of this kernel was lost: {error}")
    if info.state != "paused":
        return Ending("other", "The connection to the sandbox of this kernel was lost")
    if ran_out:
        text = (
            "The sandbox of this kernel reached its time limit and was paused. Its files are kept: "
            "give it more time, then restart the kernel"
        )
        return Ending("time", text, memory_mb=info.memory_mb)
    return Ending(
        "memory",
        "The sandbox of this kernel was paused, or its processes were lost for want of memory. "
        "Its files are kept: resume it, then restart the kernel",
        memory_mb=info.memory_mb,
    )


async def _ran_out_of_time(sandbox: AsyncSandbox) -> bool:
    """Whether the last that the sandbox's log says is that its time was over."""
    try:
        entries = await sandbox.platform.logs(
            sandbox.sandbox_id, limit=_LAST_ENTRIES, direction="backward"
        )
    except SbxError:
        return False  # a deployment without logs, or that does not answer
    return bool(entries) and entries[0].message.startswith("Sandbox timed out")
