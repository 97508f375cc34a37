"""Reads the events by which an engine tells what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from sbx_jupyter.client.api.transport import raise_for_status, translated_errors
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.protocol.access import API_KEY_HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sbx_jupyter.client.api.attachments import AttachmentsClient
    from sbx_jupyter.client.api.transport import Transport
    from sbx_jupyter.errors import SbxError
    from sbx_jupyter.protocol.platform import ListedSandbox

T = TypeVar("T")

SILENCE: Final = 60.0
"""Seconds; an engine says every 15 that it is there."""

_MAX_LINE: Final = 1024 * 1024


class Followed(Protocol):
    """The parts of a connection needed to follow its changes; ``Connection`` has them."""

    def is_awake(self) -> bool: ...

    async def transport(self) -> Transport: ...

    async def call(self, use: Callable[[AttachmentsClient], Awaitable[T]]) -> T: ...

    async def list_sandboxes(self) -> list[ListedSandbox]: ...

    def note_failure(self, error: SbxError, sandbox_id: str | None) -> None: ...


async def followed(connection: Followed) -> AsyncIterator[dict[str, list[str]]]:
    """Yield the ids of what has changed, by kind, until the deployment ends the stream.

    The first one is empty: from then on nothing is missed. Raises ``NotFoundError`` where the
    deployment has no such route, ``UnavailableError``.
    """
    transport = await connection.transport()
    response = await raise_for_status(
        await transport.open(
            "GET",
            f"{transport.config.api_url.rstrip('/')}/engine/events",
            headers={API_KEY_HEADER: transport.config.api_key, "Accept-Encoding": "identity"},
            timeout=SILENCE,
        )
    )
    try:
        with translated_errors():
            async for line in response.aiter_lines():
                if len(line) > _MAX_LINE:
                    raise UnavailableError("an event of the engine is too long")
                if line.startswith("data: "):
                    yield _decode(line.removeprefix("data: "))
    finally:
        await response.aclose()


def _decode(text: str) -> dict[str, list[str]]:
    """Raises ``UnavailableError``."""
    try:
        return msgspec.json.decode(text, type=dict[str, list[str]])
    except msgspec.DecodeError as error:
        raise UnavailableError(f"an event of the engine cannot be read: {error}") from error
