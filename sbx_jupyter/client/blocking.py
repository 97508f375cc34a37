"""Runs asynchronous code for blocking callers, on one background thread with an event loop."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import functools
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, Protocol, TypeVar

from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
P = ParamSpec("P")

_CLOSE_PATIENCE: Final = 2.0


class Portal:
    """An event loop on a separate thread. ``Portal.current()`` returns this process's portal.

    A call from a running event loop (a notebook's) blocks that loop, as any blocking call does.
    After a fork, ``Portal.current()`` starts a new portal in the child.
    """

    _current: ClassVar[Portal | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._platforms: dict[ConnectionConfig, PlatformClient] = {}
        self._thread = threading.Thread(target=self._run, name="sbx-jupyter-portal", daemon=True)
        self._thread.start()

    @classmethod
    def current(cls) -> Portal:
        """Return this process's portal; the first call starts it."""
        with cls._lock:
            if cls._current is None or cls._current._loop.is_closed():
                cls._current = cls()
                atexit.register(cls._current.close)
            return cls._current

    @classmethod
    def forget_after_fork(cls) -> None:
        """Let a forked child start its own portal; the parent's thread does not exist there."""
        cls._current = None
        cls._lock = threading.Lock()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's loop and wait for its result; an interrupt cancels it.

        Raises what the coroutine raises, and ``UnavailableError`` when the portal belongs to the
        process before a fork.
        """
        if self._pid != os.getpid():
            coroutine.close()
            raise UnavailableError("this connection belongs to the process before the fork")
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call from the portal's own thread would never return")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # The waiting thread was interrupted: cancel the coroutine so that it cleans up.
            if not future.done():
                future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the portal's loop without waiting; calls keep their order.

        Once the portal is closed, the future is cancelled: widgets still close when Python ends.
        """
        if self._loop.is_closed():
            coroutine.close()
            ended: concurrent.futures.Future[T] = concurrent.futures.Future()
            ended.cancel()
            return ended
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def platform(self, config: ConnectionConfig | None) -> PlatformClient:
        """Return the client of a deployment; all callers on this portal share it."""
        config = config or self.call(ConnectionConfig.default())
        with self._lock:
            return self._platforms.setdefault(config, PlatformClient(config))

    def close(self) -> None:
        """Close every connection and end the thread."""
        if self._pid != os.getpid() or self._loop.is_closed():
            return
        with contextlib.suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CLOSE_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_PATIENCE)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        me = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not me]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for platform in self._platforms.values():
            await platform.aclose()
        await self._loop.shutdown_asyncgens()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Blocking(Protocol):
    """An object with blocking methods."""

    def _connected(self) -> tuple[Portal, Any]:
        """Return the portal, and the asynchronous object to call on it."""
        ...


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a blocking version of an asynchronous method, with its parameters and docstring."""

    @functools.wraps(method)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> T:
        # The protocol's method is private, since it is not part of the public interface.
        portal, inner = self._connected()  # pyright: ignore[reportPrivateUsage]
        return portal.call(method(inner, *args, **kwargs))

    return call


os.register_at_fork(after_in_child=Portal.forget_after_fork)
