"""Names and viewers of terminals, which the server knows and the sandbox does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from sbx_jupyter.errors import InvalidArgumentError, NoSpaceError
from sbx_jupyter.server.terminal_names import MAX_NAME, MAX_NAMES, TerminalNames, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


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
    tag: str = ""
    name: str = ""
    views: list[View] = field(default_factory=list[View])


class TerminalViews:
    """The names and views of the terminals of one server; names are on the disk too."""

    def __init__(self, names: TerminalNames) -> None:
        self._names = names
        self._known: OrderedDict[tuple[str, int], _Terminal] = OrderedDict()

    def describe(self, sandbox_id: str, pid: int) -> TerminalShown:
        """The name and the views of a terminal."""
        known = self._known.get((sandbox_id, pid), _Terminal())
        return {
            "name": known.name,
            "viewers": [{"user": each.user, "readOnly": each.is_read_only} for each in known.views],
        }

    async def meet(self, sandbox_id: str, tags: Mapping[int, str]) -> None:
        """Take up the names that live terminals have, whichever server they were given by.

        ``tags`` are those of the processes, by number. A terminal with another tag than before is
        another terminal.
        """
        names = await asyncio.to_thread(self._names.read, tags.values())
        for pid, tag in tags.items():
            known = self._known.get((sandbox_id, pid), _Terminal(tag))
            name = names.get(tag, "") if known.tag != tag or tag in names else known.name
            if (known.tag, known.name) != (tag, name):
                self._set(sandbox_id, pid, tag, name)

    async def rename(self, sandbox_id: str, pid: int, tag: str, name: str) -> None:
        """Name a terminal, an empty name for none; ``tag`` is that of its process.

        Raises ``InvalidArgumentError``, and ``NoSpaceError`` when the name cannot be kept.
        """
        name = name.strip()
        if not is_name(name):
            raise InvalidArgumentError(
                f"the name of a terminal has at most {MAX_NAME} characters, all of them printable"
            )
        try:
            await asyncio.to_thread(self._names.write, tag, name)
        except OSError as error:
            raise NoSpaceError(f"the name could not be kept: {error}") from error
        self._set(sandbox_id, pid, tag, name)

    def _set(self, sandbox_id: str, pid: int, tag: str, name: str) -> None:
        known = self._take(sandbox_id, pid)
        known.tag, known.name = tag, name
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

    async def forget(self, sandbox_id: str, pid: int) -> None:
        """Forget the name of a terminal that has ended: another may get its number."""
        if (known := self._known.get((sandbox_id, pid))) is not None:
            tag, known.name = known.tag, ""
            self._drop_empty(sandbox_id, pid)
            with contextlib.suppress(OSError):  # it stays until there are many newer ones
                await asyncio.to_thread(self._names.write, tag, "")

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
