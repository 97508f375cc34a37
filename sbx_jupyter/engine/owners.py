"""The caller of a request to the engine, and which things that caller may use.

The service sets the caller of each request from the request's key. Work of the engine itself has
no caller and may use everything.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.errors import InvalidArgumentError

MAX_OWNER: Final = 128
_OWNER: Final = re.compile(rf"[^\x00-\x1f\x7f]{{1,{MAX_OWNER}}}\Z")


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of things a request makes, and whether it may also use those of other owners.

    The empty owner is the engine's operator, who has the engine's own key.
    """

    owner: str = ""
    sees_all: bool = True

    def may_use(self, owner: str) -> bool:
        """Whether the caller may see, change and end what ``owner`` owns."""
        return self.sees_all or owner == self.owner


_CALLER: ContextVar[Caller] = ContextVar("sbx_caller", default=Caller())  # noqa: B039 - frozen


def caller() -> Caller:
    """The caller of the request that this task serves, else the engine itself."""
    return _CALLER.get()


def set_caller(found: Caller) -> None:
    """Set the caller of this task and of the tasks that it starts from now on."""
    _CALLER.set(found)


def may_use(owner: str) -> bool:
    """Whether the caller of this task may use what ``owner`` owns."""
    return _CALLER.get().may_use(owner)


def check_owner(text: str) -> str:
    """Return ``text`` if it can name an owner; raises ``InvalidArgumentError``."""
    if not _OWNER.match(text):
        raise InvalidArgumentError(
            f"an owner has 1 to {MAX_OWNER} characters, none of them a control character"
        )
    return text
