"""One process that was started through the API: its output, its input and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal as signals
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.live.process_io import InputWriter, PipeReader, PtyReader
from sbx_jupyter.engine.live.scrollback import SCROLLBACK_SIZE
from sbx_jupyter.engine.live.subscriptions import Ended, Output, Subscribers, Subscription
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    SbxError,
    UnimplementedError,
    UnknownError,
)
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import EndEvent, ProcessConfig, ProcessInfo, ProcessInput, PtySize

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.engine.live.pipes import PipeThread
    from sbx_jupyter.engine.live.process_io import OutputReader
    from sbx_jupyter.engine.live.scrollback import Scrollback

_log = logging.getLogger(__name__)

_MAX_SIZE: Final = 0xFFFF
_KILL_GRACE: Final = 2.0
"""Seconds to wait for a killed group to be gone; after that its streams end anyway."""
_KILL_POLL: Final = 0.01

_SIGNAL_NAMES: Final = {
    1: "hangup",
    2: "interrupt",
    3: "quit",
    4: "illegal instruction",
    5: "trace/breakpoint trap",
    6: "aborted",
    7: "bus error",
    8: "floating point exception",
    9: "killed",
    10: "user defined signal 1",
    11: "segmentation fault",
    12: "user defined signal 2",
    13: "broken pipe",
    14: "alarm clock",
    15: "terminated",
}
"""The names that clients know; other signals are shown by number."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """Time limits in seconds, and the size of a scrollback in bytes."""

    stall_limit: float = 30
    """A subscriber that reads nothing while others wait is dropped after this."""
    retention: float = 30
    """An ended process can be connected to for this long."""
    start_hold: float = 2
    """The first output waits this long for the first subscriber."""
    adoption_hold: float = 10
    """Like ``start_hold``, after a restart of the engine: clients need time to reconnect."""
    scrollback_size: int = SCROLLBACK_SIZE


def end_event(status: int) -> EndEvent:
    """The end event of a process, with the texts that clients compare (interface 3.5).

    ``status`` is the exit code, or minus the signal.
    """
    if status >= 0:
        text = f"exit status {status}"
        return EndEvent(exit_code=status, exited=True, status=text, error=text if status else None)
    text = f"signal: {_SIGNAL_NAMES.get(-status, f'signal {-status}')}"
    return EndEvent(exit_code=-1, exited=False, status=text, error=text)


class Process:
    """A process of a sandbox; it runs whether or not it has subscribers."""

    def __init__(
        self,
        agent: AgentCaller,
        pid: int,
        config: ProcessConfig,
        *,
        tag: str | None,
        settings: ProcessSettings,
        on_end: Callable[[Process], None],
        disconnection: Callable[[], SbxError | None],
    ) -> None:
        """``disconnection`` gives the error that ends subscriptions, while there is one."""
        self.pid = pid
        self.config = config
        self.tag = tag
        self.end: EndEvent | None = None
        self._disconnection = disconnection
        self._agent = agent
        self._on_end = on_end
        self._subscribers = Subscribers(stall_limit=settings.stall_limit, on_room=self._resume)
        self._readers: list[OutputReader] = []
        self._terminal: PtyReader | None = None
        self._is_draining = False
        self._ended = asyncio.Event()
        self._input: InputWriter | None = None
        self._scrollback: Scrollback | None = None
        self._sequences: dict[str, int] = {}
        self._status: int | None = None
        self._exited = asyncio.Event()
        self._ends_at_exit = False
        self._is_expired = False
        self._is_group_gone = False
        self._hold_timer: asyncio.TimerHandle | None = None

    @property
    def is_pty(self) -> bool:
        return self._scrollback is not None

    @property
    def has_exited(self) -> bool:
        """Whether the process is gone; its output may still be on the way."""
        return self._status is not None

    @property
    def has_ended(self) -> bool:
        """Whether it exited and all its output was delivered."""
        return self.end is not None

    @property
    def info(self) -> ProcessInfo:
        return ProcessInfo(config=self.config, pid=self.pid, tag=self.tag)

    def attach_pipes(
        self, outputs: dict[str, int], stdin: int | None, thread: PipeThread, hold: float
    ) -> None:
        """Take over the pipes; reading starts with the first subscriber or after ``hold``."""
        self._readers = [
            PipeReader(thread, fd, kind, self._deliver, self._on_output_end)
            for kind, fd in outputs.items()
        ]
        self._input = InputWriter(stdin, thread) if stdin is not None else None
        self._hold(hold)

    def attach_terminal(self, output: int, stdin: int, scrollback: Scrollback, hold: float) -> None:
        """As ``attach_pipes``, with two descriptors of the terminal's master side."""
        self._terminal = PtyReader(output, self._deliver, self._on_output_end)
        self._readers = [self._terminal]
        self._input = InputWriter(stdin)
        self._scrollback = scrollback
        self._hold(hold)

    def _hold(self, hold: float) -> None:
        self._hold_timer = asyncio.get_running_loop().call_later(hold, self._stop_holding)

    def subscribe(self, *, replay_from: int | None = None) -> Subscription:
        """Subscribe to new output; for a pty, from byte ``replay_from`` or the oldest kept one.

        An ended process yields its end at once; one of a sandbox that is paused raises
        ``DisconnectedError`` from the first iteration, one of a sandbox that is gone
        ``UnavailableError``. The subscription must be closed.
        """
        replay = None
        if replay_from is not None and self._scrollback is not None:
            replay = self._scrollback.replay(replay_from)
        subscription = self._subscribers.add(replay)
        if self.end is not None:
            self._subscribers.finish(Ended(self.end))
        elif (error := self._disconnection()) is not None:
            # Without this, a process started during a pause would block its caller until the
            # resume, and one started while the sandbox was being ended would block it for ever.
            self.disconnect(error)
        self._stop_holding()
        return subscription

    async def send_input(self, data: ProcessInput) -> None:
        """Write to stdin or the pty; returns when the kernel has taken all of it.

        Raises ``InternalError`` for the wrong kind of input or a closed input, and
        ``UnimplementedError`` when the input is of neither kind.
        """
        if data.stdin is not None:
            if self.is_pty:
                raise InternalError("the process has a pty: send pty input instead of stdin")
            content = data.stdin
        elif data.pty is not None:
            if not self.is_pty:
                raise InternalError("the process has no pty: send stdin instead of pty input")
            content = data.pty
        else:
            raise UnimplementedError("the input is neither stdin nor pty")
        if self._input is None or self._input.is_closed:
            raise InternalError("the stdin of the process is not open")
        await self._input.write(content)

    async def close_stdin(self) -> None:
        """Close stdin; may be called more than once. Raises ``UnknownError`` for a pty."""
        if self.is_pty:
            raise UnknownError("cannot close the stdin of a pty: send byte 0x04 instead")
        if self._input is not None and not self._input.is_closed:
            self._input.close()
            await self._agent.call(ops.CLOSE_STDIN, pid=self.pid)

    def resize(self, size: PtySize) -> None:
        """Set the size of the terminal. Raises ``InternalError`` without a pty."""
        if self._terminal is None or not self._readers:
            raise InternalError("the process has no pty")
        check_size(size)
        window = struct.pack("HHHH", size.rows, size.cols, 0, 0)
        self._terminal.control(termios.TIOCSWINSZ, window)

    async def signal(self, signal: int) -> None:
        """Send SIGTERM or SIGKILL to the whole process group.

        The whole group gets it so that no grandchild stays behind; the end event is that of the
        leader. After SIGKILL it returns when the process is gone, or after two seconds: one that
        is frozen or waits for a disk dies later. Raises ``UnimplementedError`` for other signals.
        """
        if signal not in (signals.SIGTERM, signals.SIGKILL):
            raise UnimplementedError(f"signal {signal} is not supported")
        self._ends_at_exit = True
        try:
            await self._agent.call(ops.SIGNAL, pid=self.pid, signal=int(signal), group=True)
        except NotFoundError as error:
            if self._status is None:
                raise NotFoundError(f"process with pid {self.pid} not found") from error
        self._settle()
        if signal == signals.SIGKILL:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_GRACE):
                    await self._exited.wait()

    async def expire(self) -> None:
        """Kill the group at the time limit, and end every subscription with that error.

        The error is sent only after the group is gone, or after two seconds at most.
        """
        self._ends_at_exit = self._is_expired = True
        try:
            async with asyncio.timeout(_KILL_GRACE):
                await self._kill_group()
        except (SbxError, TimeoutError) as error:
            _log.info("killing process %d at its time limit: %s", self.pid, error or "it lives on")
        self._is_group_gone = True
        self._settle()
        if self._is_draining:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_GRACE):
                    await self._ended.wait()
        if not self.has_ended:
            self._subscribers.finish(_expired())

    async def _kill_group(self) -> None:
        """Kill the group repeatedly until it has no processes, not even zombies."""
        with contextlib.suppress(NotFoundError):
            while True:
                await self._agent.call(ops.SIGNAL, pid=self.pid, signal=9, group=True)
                await asyncio.sleep(_KILL_POLL)

    def exited(self, status: int) -> None:
        """Note the exit code, or minus the signal; only the first report counts."""
        if self._status is None:
            self._status = status
            self._exited.set()
            self._settle()

    def abandon(self, error: SbxError) -> None:
        """End every subscription with ``error`` and close all descriptors."""
        self._exited.set()
        self._drop_descriptors()
        self._subscribers.finish(error)
        if self._scrollback is not None:
            self._scrollback.close()

    def disconnect(self, error: SbxError) -> None:
        """End every subscription with ``error``; the process can be subscribed to again."""
        self._subscribers.disconnect(error)

    def forget(self) -> None:
        """Delete the scrollback of an ended process."""
        if self._scrollback is not None:
            self._scrollback.remove()

    def _deliver(self, kind: str, chunk: bytes) -> bool:
        if self._scrollback is not None:
            sequence = self._scrollback.end
            self._scrollback.append(chunk)
        else:
            sequence = self._sequences.get(kind, 0)
            self._sequences[kind] = sequence + len(chunk)
        if self._subscribers.publish(Output(kind, chunk, sequence)):
            return True
        for reader in self._readers:
            reader.pause()
        return False

    def _resume(self) -> None:
        if self._hold_timer is None:
            for reader in self._readers:
                reader.resume()

    def _stop_holding(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
            if not self._subscribers.is_full:
                self._resume()

    def _on_output_end(self, reader: OutputReader) -> None:
        self._readers.remove(reader)
        self._settle()

    def _settle(self) -> None:
        """End the process once it exited and its output ended, or was cut off by a signal."""
        if self._status is None or self.has_ended:
            return
        if self._is_expired and not self._is_group_gone:
            return
        if self._readers and not self._ends_at_exit:
            return
        if self._readers:
            if not self._is_draining:
                self._is_draining = True
                for reader in list(self._readers):
                    reader.drain()
            return
        self._drop_descriptors()
        self.end = end_event(self._status)
        self._subscribers.finish(_expired() if self._is_expired else Ended(self.end))
        self._ended.set()
        self._on_end(self)

    def _drop_descriptors(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        for reader in self._readers:
            reader.close()
        self._readers = []
        if self._input is not None:
            self._input.close()


def check_size(size: PtySize) -> None:
    """Raise ``InvalidArgumentError`` for a size that no terminal can have."""
    if not (0 <= size.cols <= _MAX_SIZE and 0 <= size.rows <= _MAX_SIZE):
        raise InvalidArgumentError(
            f"a terminal cannot have {size.cols} columns and {size.rows} rows"
        )


def _expired() -> DeadlineExceededError:
    return DeadlineExceededError("the process ran into its time limit and was killed")
