"""Follows what changes in one deployment, for all pages of a user that want to know."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.errors import NotFoundError, ResourceExhaustedError, SbxError, UnimplementedError
from sbx_jupyter.protocol.connect import error_to_json
from sbx_jupyter.server.deployments.engine_events import followed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sbx_jupyter.protocol.processes import ListeningPort
    from sbx_jupyter.server.deployments.engine_events import Followed

    Facts = Callable[[], Awaitable[dict[str, Any]]]

_log = logging.getLogger(__name__)

ASK_EVERY: Final = 5.0
"""Seconds between two lists of a deployment that does not tell what changes."""

LOOK_EVERY: Final = 2.0
"""Seconds between two looks at what this server knows itself: kernels, and whether an engine runs.
"""

LINGER: Final = 30.0
"""Seconds that events are kept for a page that comes back, after the last page has gone."""

KEPT_EVENTS: Final = 512
MAX_WAITING: Final = 256
"""Events that wait for a slow page; of more it gets the state afresh."""

MAX_PAGES: Final = 64
MAX_PORTS_ASKED: Final = 50
_PAUSE: Final = 0.1
_LISTED: Final = "sandboxes"


class Page:
    """The events that one page has not been sent yet."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._has_some = asyncio.Event()
        self.needs_state = True
        self.is_closed = False

    def put(self, text: str) -> None:
        """Add an event; if too many wait, they are dropped and the state is sent instead."""
        if len(self._waiting) >= MAX_WAITING:
            self.restart()
        if not self.needs_state:
            self._waiting.append(text)
        self._has_some.set()

    def restart(self) -> None:
        """Begin again with the state."""
        self._waiting.clear()
        self.needs_state = True
        self._has_some.set()

    def take(self) -> str:
        """The events to send now, one after the other."""
        self._has_some.clear()
        text = "".join(self._waiting)
        self._waiting.clear()
        return text

    async def wait(self) -> None:
        """Return when there is something to send, or the page or the connection was closed."""
        await self._has_some.wait()

    def close(self) -> None:
        self.is_closed = True
        self._has_some.set()


class Changes:
    """The events of one connection, numbered, and the pages that get them.

    It works while there is a page, and for ``LINGER`` seconds afterwards.
    """

    def __init__(
        self,
        connection: Followed,
        facts: Facts,
        show_port: Callable[[ListeningPort, str], object],
    ) -> None:
        """``facts`` gives what the server itself knows: ``info`` and ``kernels``.

        ``show_port`` makes the record of a port of a sandbox for pages.
        """
        self._show_port = show_port
        self._connection = connection
        self._facts = facts
        self._pages: set[Page] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: asyncio.TimerHandle | None = None
        self._reset()

    def _reset(self) -> None:
        self._run = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._last = 0
        self._kept: deque[tuple[int, str]] = deque(maxlen=KEPT_EVENTS)
        self._known: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self._problem: object = None
        self._listed_besides: set[str] = set()
        self._changed: dict[str, set[str]] = {_LISTED: set()}
        self._is_changed = asyncio.Event()
        self._is_changed.set()
        self._is_read = asyncio.Event()

    def add(self, last_event: str) -> Page:
        """Begin to send to a page, after the event that it had last if that is still known.

        Raises ``ResourceExhaustedError`` if there are too many pages.
        """
        if len(self._pages) >= MAX_PAGES:
            raise ResourceExhaustedError(f"{MAX_PAGES} pages follow changes already")
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if not self._tasks:
            self._reset()
            self._tasks = [
                asyncio.create_task(self._follow()),
                asyncio.create_task(self._tell_forever()),
            ]
            for task in self._tasks:
                task.add_done_callback(self._on_end)
        page = Page()
        self._resume(page, last_event)
        self._pages.add(page)
        return page

    def remove(self, page: Page) -> None:
        """Send no more to a page."""
        self._pages.discard(page)
        if not self._pages and self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(LINGER, self._stop)

    def note_listed(self, sandbox_ids: set[str]) -> None:
        """A page was given a list besides: its end is told of each, known from events or not.

        Otherwise a sandbox that begins and ends between two lists of ours would stay on that page.
        """
        if self._pages and not sandbox_ids <= self._known.keys():
            self._listed_besides |= sandbox_ids - self._known.keys()
            self._note({_LISTED: []})

    async def state(self, page: Page) -> str:
        """The event with all that there is, to which later ones add; waits for the first list."""
        await self._is_read.wait()
        page.take()
        page.needs_state = False
        whole = {_LISTED: list(self._known.values()), **self._told}
        if self._problem is not None:
            whole["problem"] = self._problem
        return _event("state", whole, f"{self._run}-{self._last}")

    async def aclose(self) -> None:
        """End the streams of all pages, and stop."""
        for page in self._pages:
            page.close()
        tasks = self._tasks
        self._stop()
        if self._ending is not None:
            self._ending.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop(self) -> None:
        self._ending = None
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """After an unexpected error, let all pages connect again, which starts afresh."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("following the changes failed", exc_info=error)
            for page in self._pages:
                page.close()
            self._stop()

    def _resume(self, page: Page, last_event: str) -> None:
        run, _, number = last_event.partition("-")
        if run != self._run or not (number.isascii() and number.isdigit() and len(number) < 16):
            return
        oldest = self._kept[0][0] if self._kept else self._last + 1
        if oldest - 1 <= int(number) <= self._last:
            page.needs_state = False
            missed = [text for each, text in self._kept if each > int(number)]
            if len(missed) > MAX_WAITING:
                page.restart()
            for text in missed:
                page.put(text)

    def _publish(self, name: str, record: object) -> None:
        self._last = next(self._numbers)
        text = _event(name, record, f"{self._run}-{self._last}")
        self._kept.append((self._last, text))
        for page in self._pages:
            page.put(text)

    async def _follow(self) -> None:
        """Note what the deployment tells; list again where something may have been missed."""
        while True:
            pause = LOOK_EVERY
            try:
                if self._connection.is_awake():
                    pause = ASK_EVERY
                    async for changed in followed(self._connection):
                        self._note(changed or {_LISTED: []})
            except (NotFoundError, UnimplementedError):
                pass  # it does not tell: its list is compared
            except SbxError as error:
                self._connection.note_failure(error, None)
            self._note({_LISTED: []})
            await asyncio.sleep(pause)

    def _note(self, changed: Mapping[str, list[str]]) -> None:
        for kind, ids in changed.items():
            self._changed.setdefault(kind, set()).update(ids)
        self._is_changed.set()

    async def _tell_forever(self) -> None:
        while True:
            changed, self._changed = self._changed, {}
            self._is_changed.clear()
            try:
                if _LISTED in changed:
                    await self._tell_sandboxes()
                    self._tell_problem(None)
            except SbxError as error:
                self._connection.note_failure(error, None)
                self._tell_problem(error_to_json(error))
                # Without an event: it is listed again after LOOK_EVERY seconds, not at once.
                self._changed.setdefault(_LISTED, set())
            await self._tell_ports(changed.pop("ports", set()))
            await self._tell_facts()
            self._is_read.set()
            if others := {k: sorted(ids) for k, ids in changed.items() if k != _LISTED}:
                self._publish("changed", others)
            await asyncio.sleep(_PAUSE)
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._is_changed.wait()
            except TimeoutError:
                continue  # what the server itself knows is looked at, and a list that failed

    async def _tell_sandboxes(self) -> None:
        """Publish how the list differs from the last one. Raises ``SbxError``."""
        besides, self._listed_besides = self._listed_besides, set()
        try:
            listed = await self._connection.list_sandboxes() if self._connection.is_awake() else []
        except SbxError:
            self._listed_besides |= besides
            raise
        now = {each.sandbox_id: msgspec.to_builtins(each) for each in listed}
        before, self._known = self._known, now
        if not self._is_read.is_set():
            return
        for sandbox_id in (before.keys() | besides) - now.keys():
            self._publish("ended", {"sandboxID": sandbox_id})
        for sandbox_id, record in now.items():
            if before.get(sandbox_id) != record:
                self._publish("sandbox", record)

    async def _tell_ports(self, sandbox_ids: set[str]) -> None:
        for sandbox_id in sorted(sandbox_ids)[:MAX_PORTS_ASKED]:
            if sandbox_id not in self._known:
                continue
            try:
                found = await self._connection.call(
                    lambda platform, sandbox_id=sandbox_id: platform.ports(sandbox_id)
                )
            except SbxError:
                found = []  # it was paused or ended meanwhile
            shown = [self._show_port(each, sandbox_id) for each in found]
            self._publish("ports", {"sandboxID": sandbox_id, "ports": shown})

    async def _tell_facts(self) -> None:
        """Publish what the server itself knows, where it has changed."""
        for name, fact in (await self._facts()).items():
            shown = fact
            if name == "kernels":
                shown = [each for each in fact if each["sandboxID"] in self._known]
            if self._told.get(name) != shown:
                self._told[name] = shown
                if self._is_read.is_set():
                    self._publish(name, shown)

    def _tell_problem(self, problem: object) -> None:
        if problem != self._problem:
            self._problem = problem
            self._publish("problem", problem)


def _event(name: str, record: object, event_id: str) -> str:
    return f"id: {event_id}\nevent: {name}\ndata: {msgspec.json.encode(record).decode()}\n\n"
