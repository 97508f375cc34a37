"""Control groups, version 1 and 2: limits, freezing, usage; nothing where none can be made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbx_jupyter.errors import UnimplementedError

from .usage import Usage

if TYPE_CHECKING:
    from .fence import Limits


class SandboxGroup:
    """The control groups of one sandbox; may be none at all."""

    def __init__(self, directories: dict[str, Path]) -> None:
        self._directories = directories

    def to_state(self) -> dict[str, Any]:
        """Plain JSON for ``from_state``."""
        return {name: str(path) for name, path in self._directories.items()}

    async def release_frozen(self) -> None:
        """Let a frozen group take a signal that was sent to it."""

    async def freeze(self) -> None:
        raise UnimplementedError("this machine has no freezer")

    async def thaw(self) -> None:
        raise UnimplementedError("this machine has no freezer")

    async def remove(self) -> None:
        """Remove the directories."""

    def usage(self) -> Usage | None:
        return None

    def oom_kills(self) -> int:
        return 0
