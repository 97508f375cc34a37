"""Looks up names for sandboxes, in threads of their own and few at once for each.

A resolver that does not answer holds its thread for seconds; the engine's other work in threads
must not wait behind that, nor the names of other sandboxes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import DeadlineExceededError, UnavailableError

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.policy import Address

_THREADS: Final = 32
PER_SANDBOX: Final = 4
TIMEOUT: Final = 10.0


class Resolver:
    """The threads that wait for the machine's resolver."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sbx-resolve")

    async def look_up(self, host: str, port: int, turns: asyncio.Semaphore) -> list[Address]:
        """The addresses of a name, at least one; ``turns`` are those of the sandbox.

        Raises ``DeadlineExceededError`` and ``UnavailableError``.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                await turns.acquire()
                found = await self._ask(host, port, turns)
        except TimeoutError as error:
            raise DeadlineExceededError(f"the name {host} was not resolved in time") from error
        except (OSError, UnicodeError) as error:
            raise UnavailableError(f"the name {host} cannot be resolved") from error
        return list(dict.fromkeys(ipaddress.ip_address(item[4][0]) for item in found))

    async def _ask(self, host: str, port: int, turns: asyncio.Semaphore) -> list[tuple]:
        loop = asyncio.get_running_loop()
        try:
            work = self._threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        except BaseException:
            turns.release()
            raise
        # The turn is over when the thread is free again, not when nobody waits any more.
        work.add_done_callback(lambda _: _from_thread(loop, turns))
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """Take no more names; threads that wait go on until they are answered."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _from_thread(loop: asyncio.AbstractEventLoop, turns: asyncio.Semaphore) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(turns.release)
