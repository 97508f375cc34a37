"""Describes the request and the answers of a handler's verb, for the API description."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sbx_jupyter.service.bodies import BodyHandler

ATTRIBUTE: Final = "sbx_operation"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter."""

    name: str
    schema: dict[str, Any]
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One verb of one route."""

    summary: str
    answers: dict[int, Any]
    """Body by status: the type of the JSON, a content type as text, or ``None`` for no body."""

    errors: tuple[int, ...] = ()
    body: Any = None
    """The type of the JSON body, a content type, or ``None``."""

    is_body_optional: bool = False
    query: tuple[Parameter, ...] = ()


def operation(
    summary: str,
    *,
    answers: dict[int, Any],
    errors: tuple[int, ...] = (),
    body: Any = None,
    is_body_optional: bool = False,
    query: tuple[Parameter, ...] = (),
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Describe a verb of a handler, and run it only if its request has not been refused before."""
    described = Operation(
        summary=summary,
        answers=answers,
        errors=errors,
        body=body,
        is_body_optional=is_body_optional,
        query=query,
    )

    def mark(verb: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        @functools.wraps(verb)
        async def run(self: BodyHandler, *args: str, **kwargs: str) -> None:
            if self.is_rejected:
                self.finish()
                return
            await verb(self, *args, **kwargs)

        setattr(run, ATTRIBUTE, described)
        return run

    return mark
