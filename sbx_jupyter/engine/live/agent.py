"""The interface to the agent of a sandbox, and the conversion of its replies to records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.channel import Reply

T = TypeVar("T")


class AgentCaller(Protocol):
    """Calls the agent of one sandbox."""

    async def call(
        self, op: str, *, fds: Sequence[int] = (), timeout: float = 30, **fields: Any
    ) -> Reply:
        """Send a request and wait for the reply; raises the error that the agent names."""
        ...


def decode_reply(reply: Reply, kind: type[T]) -> T:
    """Decode a reply as a record; raises ``InternalError`` when it does not have that form."""
    try:
        return msgspec.json.decode(reply.raw, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(error) from error


def convert_body(body: dict[str, Any], kind: type[T], *, strict: bool = True) -> T:
    """Convert the body of a reply to a record; raises ``InternalError`` as ``decode_reply``."""
    try:
        return msgspec.convert(body, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise malformed(error) from error


def malformed(why: object) -> InternalError:
    """The error for a reply that does not have the form that the protocol demands."""
    return InternalError(f"the sandbox gave a malformed answer: {why}")
