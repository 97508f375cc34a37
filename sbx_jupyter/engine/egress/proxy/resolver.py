"""Resolves names for sandboxes in its own threads, with a limit for each sandbox.

A resolver that does not answer blocks its thread for seconds. Neither the engine's other threads
nor the lookups of other sandboxes may wait for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import DeadlineExceededError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.policy import Address

_THREADS: Final = 32
PER_SANDBOX: Final = 4
"""Lookups of one sandbox at once."""

TIMEOUT: Final = 10.0

_AddressInfo = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
"""One element of what ``socket.getaddrinfo`` returns."""


class Resolver:
    """Calls the machine's resolver in a pool of threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sbx-resolve")

    async def look_up(
        self,
        host: str,
        port: int,
        lookups: asyncio.Semaphore,
        check: Callable[[], None] = lambda: None,
    ) -> list[Address]:
        """The addresses of a name, at least one; ``lookups`` limits those of the sandbox.

        Raises ``DeadlineExceededError``, ``UnavailableError``, and what ``check`` raises, which is
        called when the limit lets the lookup begin.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                await lookups.acquire()
                found = await self._ask(host, port, lookups, check)
        except TimeoutError as error:
            raise DeadlineExceededError(f"the name {host} was not resolved in time") from error
        except (OSError, UnicodeError) as error:
            raise UnavailableError(f"the name {host} cannot be resolved") from error
        return list(dict.fromkeys(ipaddress.ip_address(item[4][0]) for item in found))

    async def _ask(
        self, host: str, port: int, lookups: asyncio.Semaphore, check: Callable[[], None]
    ) -> list[_AddressInfo]:
        loop = asyncio.get_running_loop()
        try:
            check()
            work = self._threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        except BaseException:
            lookups.release()
            raise
        # Released when the thread is free again, which may be after the caller has timed out.
        work.add_done_callback(lambda _: _release(loop, lookups))
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """Accept no more lookups; threads that wait for an answer go on until they have it."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _release(loop: asyncio.AbstractEventLoop, lookups: asyncio.Semaphore) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(lookups.release)
