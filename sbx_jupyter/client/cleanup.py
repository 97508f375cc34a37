"""Lets the clean-up of a cancelled call finish."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

CLEANUP_SECONDS: Final = 5.0


@contextlib.contextmanager
def shielded(seconds: float = CLEANUP_SECONDS) -> Generator[None]:
    """Let the awaits inside finish although the caller is cancelled, or end them after ``seconds``.

    A cancelled scope of anyio cancels every await in it, also those of the clean-up, while plain
    asyncio cancels once. Servers built on anyio, such as those for MCP, cancel by such scopes.
    """
    # httpx stands on anyio; imported here, since looking for the engine needs neither.
    import anyio

    with anyio.move_on_after(seconds, shield=True):
        yield
