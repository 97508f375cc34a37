"""The helper: answers an engine's messages with root's privileges, within one data directory.

It ends when the engine closes the socket; the sandboxes go on. No message ends it or reaches
anything outside of the data directory, whatever the engine sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import resource
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import (
    InternalError,
    InvalidArgumentError,
    NoSpaceError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.ids.blocks import IdRange
from sbx_jupyter.isolation.privileged import findings, messages
from sbx_jupyter.isolation.privileged.operations import Operations
from sbx_jupyter.isolation.tiers import check_full_network, choose, detect, of_tier
from sbx_jupyter.isolation.zygote.client import end_former, record_identity

if TYPE_CHECKING:
    from sbx_jupyter.isolation.privileged.helper_options import HelperOptions

_log = logging.getLogger(__name__)

_MAX_RUNNING: Final = 512
"""Messages in work; more wait in the socket."""

_MAX_TEXT: Final = 2000
_REQUEST_ID: Final = re.compile(rb'\{"id":([0-9]{1,18}),')
_SHORTAGE_PAUSE: Final = 0.02
_END_PATIENCE: Final = 5.0


class Helper:
    """Serves one socket."""

    def __init__(self, sock: socket.socket, options: HelperOptions) -> None:
        self._sock = sock
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._ended = asyncio.Event()
        self._fence: Fence | None = None
        self._starting = asyncio.create_task(self._start())
        sock.setblocking(False)

    async def serve(self) -> None:
        """Answer messages until the socket closes or a message says to stop."""
        self._loop.add_reader(self._sock, self._readable)
        await self._ended.wait()
        self._loop.remove_reader(self._sock)
        with contextlib.suppress(SbxError, OSError, TimeoutError):
            async with asyncio.timeout(_END_PATIENCE):
                await self._starting
                if self._fence is not None:
                    await self._fence.stop()

    async def _start(self) -> Operations:
        folder, options = Path(self._options.data_dir), self._options
        record = folder / "helper" / "helper.json"
        await asyncio.to_thread(end_former, record)
        record_identity(record, os.getpid())
        host_ids = IdRange.parse(options.host_ids)
        kept = folder / "helper" / "findings.json"
        former = findings.read(kept)
        if former is None:
            found = await asyncio.to_thread(detect, folder, host_ids)
        else:
            found = former.report
        tier = choose(found, options.isolation)
        report = of_tier(found, tier)
        is_full = options.network == "full"
        if is_full:
            check_full_network(report, tier)
        fence = self._fence = Fence(
            folder,
            report,
            tier,
            tap=is_full,
            cpu_weight=options.cpu_weight,
            host_ids=host_ids,
            known_stock=None if former is None else former.known_stock,
        )
        await fence.start()
        if (stock := fence.known_stock) is not None:
            findings.write(
                kept, findings.Findings(report=found, layer=str(stock.layer), plan=stock.plan)
            )
        return Operations(fence, report, tier, options)

    def _readable(self) -> None:
        if len(self._running) >= _MAX_RUNNING:
            self._loop.remove_reader(self._sock)
            return
        try:
            received = wire.receive_payload(self._sock)
        except BlockingIOError:
            return
        except wire.WireError as error:
            _log.warning("a message was dropped: %s", error)
            return
        except OSError:
            received = None
        if received is None:
            self._ended.set()
            return
        task = asyncio.create_task(self._handle(*received))
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a message could not be answered", exc_info=error)
        if not self._ended.is_set():
            self._loop.add_reader(self._sock, self._readable)

    async def _handle(self, payload: bytes, fds: list[int]) -> None:
        found = _REQUEST_ID.match(payload)
        if found is None:
            wire.close_all(fds)
            _log.warning("a message without a number was dropped")
            return
        request_id = int(found[1])
        given: list[int] = []
        try:
            body = b"{" + payload[found.end() :]
            answer = await self._answer_to(body, fds, given)
        except SbxError as error:
            await self._fail(request_id, error)
        except OSError as error:
            failed = {"failed": [error.errno or 0, str(error.strerror or error)[:_MAX_TEXT]]}
            await self._send({"id": request_id, "ok": failed})
        except Exception:
            _log.exception("a message failed")
            await self._fail(request_id, InternalError("the helper failed; its log says why"))
        else:
            await self._succeed(request_id, answer, given)
        finally:
            wire.close_all(fds)
            wire.close_all(given)
            if self._has_failed():  # the next one may have more luck
                self._ended.set()

    def _has_failed(self) -> bool:
        """Whether the start failed, which was the answer to some message by now."""
        task = self._starting
        return task.done() and (task.cancelled() or task.exception() is not None)

    async def _answer_to(self, body: bytes, fds: list[int], given: list[int]) -> Any:
        try:
            message = msgspec.json.decode(body, type=messages.Any_)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"not a message of the helper: {error}") from None
        if isinstance(message, messages.Stop):
            self._loop.call_soon(self._ended.set)
            return {}
        try:
            operations = await asyncio.shield(self._starting)
        except (SbxError, OSError) as error:
            if isinstance(message, messages.Describe):
                raise
            raise UnavailableError(f"the helper did not start: {error}") from error
        return await operations.run(message, fds, given)

    async def _succeed(self, request_id: int, answer: Any, given: list[int]) -> None:
        payload = msgspec.json.encode(answer)
        try:
            await self._send({"id": request_id, "ok": wire.Encoded(payload)}, given)
        except wire.WireError as error:
            await self._fail(request_id, ResourceExhaustedError(f"the answer is {error}"))

    async def _fail(self, request_id: int, error: SbxError) -> None:
        failure: dict[str, object] = {"code": error.code, "message": error.message[:_MAX_TEXT]}
        if isinstance(error, NoSpaceError):
            failure["errno"] = errno.ENOSPC  # tells it from other shortages
        await self._send({"id": request_id, "error": failure})

    async def _send(self, body: dict[str, Any], fds: list[int] | None = None) -> None:
        datagram, all_fds, memfd = wire.encode(body, fds or [])
        try:
            async with self._sending:
                while not self._ended.is_set() and not await self._sent(datagram, all_fds):
                    pass
        finally:
            if memfd is not None:
                os.close(memfd)

    async def _sent(self, datagram: bytes, fds: list[int]) -> bool:
        try:
            self._sock.sendmsg([datagram], wire.rights(fds), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            writable: asyncio.Future[None] = self._loop.create_future()
            self._loop.add_writer(self._sock, _wake, writable)
            try:
                await writable
            finally:
                self._loop.remove_writer(self._sock)
            return False
        except OSError as error:
            if error.errno in wire.SHORTAGE:
                await asyncio.sleep(_SHORTAGE_PAUSE)
                return False
            self._ended.set()
        return True


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _serve(sock: socket.socket, options: HelperOptions) -> None:
    await Helper(sock, options).serve()


def main(descriptor: int, options: str) -> NoReturn:
    """Serve the socket behind a descriptor until it closes."""
    from sbx_jupyter.isolation.privileged.helper_options import HelperOptions

    logging.basicConfig(level=logging.WARNING, format="helper: %(message)s", stream=sys.stderr)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # as far as this machine lets it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_run(descriptor, msgspec.json.decode(options, type=HelperOptions)))
    os._exit(0)


async def _run(descriptor: int, options: HelperOptions) -> NoReturn:
    try:
        await _serve(socket.socket(fileno=descriptor), options)
    finally:
        os._exit(0)  # work of threads goes on to no purpose: the next engine does it
