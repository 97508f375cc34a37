"""Contexts: named kernels that run one piece of code at a time (interface 5.1 and 5.3)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbx_jupyter.interpreter import events, variables
from sbx_jupyter.interpreter.kernel import Kernel, KernelDiedError
from sbx_jupyter.interpreter.launcher import KernelStartError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from sbx_jupyter.interpreter.launcher import Launcher
    from sbx_jupyter.interpreter.variables import SandboxVariables

    Events = AsyncGenerator[events.Event, None]

T = TypeVar("T")

KEEPALIVE_INTERVAL: Final = 5.0
_SILENT: Final = 3
"""Intervals without a message after the reply, until the last messages count as lost."""
_LOST: Final = "\n[the last of the output is lost: it came faster than it was read]\n"
SETTLE_TIMEOUT: Final = 10.0
"""Seconds in which interrupted code must stop before its kernel is replaced."""

MAX_CONTEXTS: Final = 32
"""Contexts besides the defaults, which anybody with the sandbox's id may create (interface 5.1)."""

_ALIASES: Final = {"js": "javascript", "ts": "typescript", "": "python"}
LANGUAGES: Final = frozenset({"python", "javascript", "typescript", "r", "java", "bash"})


class TooManyContextsError(RuntimeError):
    """There are ``MAX_CONTEXTS`` contexts already."""


class UnknownContextError(LookupError):
    """No such context."""


def normalised(language: str | None) -> str:
    """The name that a language is known by (interface 5.1)."""
    name = (language or "").strip().lower()
    return _ALIASES.get(name, name)


class Context:
    """One kernel, started at its first use and replaced when it dies."""

    def __init__(
        self, launcher: Launcher, sandbox: SandboxVariables, language: str, cwd: str
    ) -> None:
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self._launcher = launcher
        self._sandbox = sandbox
        self._told: Kernel | None = None
        self._is_removed = False
        self._kernel: Kernel | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        """Number of executions that wait for their turn."""
        self._starting = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()

    def to_json(self) -> dict[str, str]:
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    async def ready(self) -> Kernel:
        """The kernel, started if there is none.

        Raises ``KernelStartError``, ``UnknownContextError`` when the context was removed meanwhile.
        """
        async with self._starting:
            if self._is_removed:
                raise UnknownContextError(self.id)
            if self._kernel is not None and self._kernel.died.is_set():
                await self._drop()
            if self._kernel is None:
                self._kernel = await Kernel.start(self._launcher, self.language, self.cwd)
            return self._kernel

    async def execute(self, code: str, envs: dict[str, str] | None) -> Events:
        """Run code when it is its turn, as events up to the end.

        Closing the iterator before the end interrupts the code. Raises ``KernelStartError``, and
        ``UnknownContextError`` when the context was removed meanwhile.
        """
        if self._waiting or self._turn.locked():
            async with contextlib.aclosing(self._wait_turn()) as signs:
                async for sign in signs:
                    yield sign
        else:
            await self._turn.acquire()
        finished = False
        kernel: Kernel | None = None
        try:
            if (kernel := self._running) is None:
                starting = self._keep(self.ready())
                async for sign in _signs_of_life(starting):
                    yield sign
                kernel = starting.result()
            await self._set(kernel, envs)
            kernel.execute(code)
            async for event in _events(kernel):
                yield event
            finished = True
            await self._unset(kernel, envs)
        except KernelDiedError:
            finished = True
            yield events.error(
                "ContextRestarting", "The kernel died; its context starts anew with the next code."
            )
        finally:
            if finished or kernel is None:
                self._turn.release()
            else:
                self._settle(kernel, envs)
        yield events.END

    async def restart(self) -> None:
        """Replace the kernel; running code ends with an error."""
        async with self._starting:
            await self._drop()
        await self.ready()

    async def aclose(self) -> None:
        """End the kernel for good; executions that still wait fail when it is their turn."""
        self._is_removed = True
        async with self._starting:
            await self._drop()

    async def _wait_turn(self) -> Events:
        """Wait, in the order of asking, until nothing else runs here."""
        acquiring = asyncio.ensure_future(self._turn.acquire())
        self._waiting += 1
        try:
            async for sign in _signs_of_life(acquiring):
                yield sign
        except BaseException:
            if not acquiring.cancel() and not acquiring.cancelled():
                self._turn.release()  # it was acquired just when the client disconnected
            raise
        finally:
            self._waiting -= 1

    @property
    def _running(self) -> Kernel | None:
        """The kernel, if it runs and nothing replaces or ends it just now."""
        kernel = self._kernel
        if kernel is None or kernel.died.is_set() or self._starting.locked() or self._is_removed:
            return None
        return kernel

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work that goes on if the client that requested it disconnects."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that asyncio does not log it if no caller waits any more

    async def _drop(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.aclose()

    def _settle(self, kernel: Kernel, envs: dict[str, str] | None) -> None:
        """Interrupt code whose client has left, and keep our turn until it has stopped."""

        async def settle() -> None:
            try:
                async with asyncio.timeout(SETTLE_TIMEOUT):
                    kernel.interrupt()
                    async for _ in _events(kernel):
                        pass
                    await self._unset(kernel, envs)
            except KernelDiedError:
                pass
            except TimeoutError:
                with contextlib.suppress(KernelStartError, UnknownContextError):
                    await self.restart()
            finally:
                self._turn.release()

        self._keep(settle())

    async def _set(self, kernel: Kernel, envs: dict[str, str] | None) -> None:
        if self._told is not kernel:
            self._told = kernel
            envs = self._sandbox.changed() | (envs or {})
        if envs and (code := variables.setting(self.language, envs)):
            await kernel.run_silently(code)

    async def _unset(self, kernel: Kernel, envs: dict[str, str] | None) -> None:
        if envs and (code := variables.restoring(self.language, envs, self._sandbox)):
            await kernel.run_silently(code)


class Contexts:
    """All contexts of the sandbox, with one shared default per language."""

    def __init__(self, launcher: Launcher, sandbox: SandboxVariables, home: str) -> None:
        self._launcher = launcher
        self._sandbox = sandbox
        self._home = home
        self._by_id: dict[str, Context] = {}
        self._defaults: dict[str, Context] = {}
        for language in ("python", "javascript"):
            self.default(language)

    def default(self, language: str) -> Context:
        """The context for code that names none. Raises ``KernelStartError``."""
        _check(language)
        if language not in self._defaults:
            self._defaults[language] = self._add(language, self._home)
        return self._defaults[language]

    async def create(self, language: str, cwd: str | None) -> Context:
        """Make a context and start its kernel.

        Raises ``KernelStartError`` and ``TooManyContextsError``.
        """
        _check(language)
        if len(self._by_id) - len(self._defaults) >= MAX_CONTEXTS:
            raise TooManyContextsError(f"there are {MAX_CONTEXTS} contexts: remove one first")
        context = self._add(language, cwd or self._home)
        try:
            await context.ready()
        except BaseException:
            del self._by_id[context.id]
            raise
        return context

    def get(self, context_id: str) -> Context:
        """Raises ``UnknownContextError``."""
        try:
            return self._by_id[context_id]
        except KeyError:
            raise UnknownContextError(context_id) from None

    def to_json(self) -> list[dict[str, Any]]:
        return [context.to_json() for context in self._by_id.values()]

    async def remove(self, context_id: str) -> None:
        """Raises ``UnknownContextError``."""
        context = self.get(context_id)
        del self._by_id[context_id]
        if self._defaults.get(context.language) is context:
            del self._defaults[context.language]
        await context.aclose()

    async def aclose(self) -> None:
        for context in self._by_id.values():
            await context.aclose()

    def _add(self, language: str, cwd: str) -> Context:
        context = Context(self._launcher, self._sandbox, language, cwd)
        self._by_id[context.id] = context
        return context


def _check(language: str) -> None:
    if language not in LANGUAGES:
        raise KernelStartError(f"language {language!r} is not supported")


async def _signs_of_life(awaited: asyncio.Future[Any]) -> Events:
    """Keepalives until something has happened."""
    while not awaited.done():
        await asyncio.wait((awaited,), timeout=KEEPALIVE_INTERVAL)
        if not awaited.done():
            yield events.KEEPALIVE


async def _events(kernel: Kernel) -> Events:
    """The kernel's events for the running code, with keepalives while it sends none.

    A kernel drops what it says faster than that is read, and with a flood also that it is idle. So
    they end as well when it was silent for some intervals after its reply.
    """
    failed = False
    silent = 0
    while True:
        try:
            async with asyncio.timeout(KEEPALIVE_INTERVAL):
                message = await kernel.receive()
        except TimeoutError:
            if silent == _SILENT:
                yield events.notice(_LOST)
                return
            silent += kernel.has_replied
            yield events.KEEPALIVE
            continue
        silent = 0
        if events.is_idle(message):
            return
        event = events.event_of(message)
        if event is None or (event["type"] == "error" and failed):
            continue
        failed = failed or event["type"] == "error"
        for piece in events.pieces(event):
            yield piece
        # What is there already is taken without a wait, and the kernel must be listened to.
        await asyncio.sleep(0)
