"""Names of terminals, and who looks at each: what the server knows and the sandbox does not."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

MAX_NAMES: Final = 1024
MAX_NAME: Final = 64


class Viewer(TypedDict):
    """Who looks at a terminal, by the name that others are shown."""

    user: str
    readOnly: bool


class TerminalShown(TypedDict):
    """What a server knows of a terminal: its name, empty for none, and who looks at it."""

    name: str
    viewers: list[Viewer]


@dataclass(eq=False, slots=True)
class View:
    """One open socket of a terminal."""

    user: str
    """The name of the user as others are shown it."""

    is_read_only: bool
    tell: Callable[[TerminalShown], None]
    """Called with ``describe`` whenever that changes."""


@dataclass(slots=True)
class _Terminal:
    name: str = ""
    views: list[View] = field(default_factory=list[View])


class TerminalViews:
    """The names and views of the terminals of one server; they are kept in memory only."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], _Terminal] = OrderedDict()

    def describe(self, sandbox_id: str, pid: int) -> TerminalShown:
        """The name and the views of a terminal."""
        known = self._known.get((sandbox_id, pid), _Terminal())
        return {
            "name": known.name,
            "viewers": [{"user": each.user, "readOnly": each.is_read_only} for each in known.views],
        }

    def rename(self, sandbox_id: str, pid: int, name: str) -> None:
        """Name a terminal, an empty name for none; raises ``InvalidArgumentError``."""
        name = name.strip()
        if len(name) > MAX_NAME or not name.isprintable():
            raise InvalidArgumentError(
                f"the name of a terminal has at most {MAX_NAME} characters, all of them printable"
            )
        self._take(sandbox_id, pid).name = name
        self._changed(sandbox_id, pid)

    @contextlib.contextmanager
    def shown(self, sandbox_id: str, pid: int, view: View) -> Generator[None]:
        """Count a view while it is open."""
        views = self._take(sandbox_id, pid).views
        views.append(view)
        self._changed(sandbox_id, pid)
        try:
            yield
        finally:
            views.remove(view)
            self._changed(sandbox_id, pid)

    def forget(self, sandbox_id: str, pid: int) -> None:
        """Forget the name of a terminal that has ended: another may get its number."""
        if (known := self._known.get((sandbox_id, pid))) is not None:
            known.name = ""
            self._drop_empty(sandbox_id, pid)

    def _take(self, sandbox_id: str, pid: int) -> _Terminal:
        known = self._known.setdefault((sandbox_id, pid), _Terminal())
        self._known.move_to_end((sandbox_id, pid))
        unseen = [key for key, each in self._known.items() if not each.views]
        for key in unseen[: max(0, len(self._known) - MAX_NAMES)]:
            if key != (sandbox_id, pid):
                del self._known[key]
        return known

    def _changed(self, sandbox_id: str, pid: int) -> None:
        if (known := self._known.get((sandbox_id, pid))) is None:
            return
        shown = self.describe(sandbox_id, pid)
        for view in known.views:
            view.tell(shown)
        self._drop_empty(sandbox_id, pid)

    def _drop_empty(self, sandbox_id: str, pid: int) -> None:
        known = self._known[sandbox_id, pid]
        if not known.views and not known.name:
            del self._known[sandbox_id, pid]
