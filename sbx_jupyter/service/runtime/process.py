"""``process.Process`` (interface 3.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.live.subscriptions import Output
from sbx_jupyter.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError
from sbx_jupyter.protocol.runtime import (
    ConnectRequest,
    Empty,
    ListProcessesResponse,
    ProcessEvent,
    ProcessEventResponse,
    ProcessSelector,
    SendInputRequest,
    SendSignalRequest,
    StartEvent,
    StartRequest,
    StreamInputRequest,
    UpdateRequest,
)
from sbx_jupyter.service.runtime.connect import (
    Call,
    ClientStream,
    Method,
    ServerStream,
    StreamCall,
    Unary,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.engine.live.subscriptions import Subscription

_SIGNALS: Final[dict[str | int, int]] = {
    "SIGNAL_SIGTERM": 15,
    "SIGNAL_SIGKILL": 9,
    15: 15,
    9: 9,
}
_KEEPALIVE: Final = ProcessEventResponse(event=ProcessEvent(keepalive=Empty()))


async def list_processes(call: Call, _: Empty) -> ListProcessesResponse:
    """``List``."""
    return ListProcessesResponse(processes=call.sandbox.processes.list())


async def start(call: StreamCall, request: StartRequest) -> None:
    """``Start``: streams the output of a new process; its time limit kills the process."""
    process = await call.sandbox.processes.start(request, user=call.user, timeout=call.timeout)
    await _follow(call, process)


async def connect_process(call: StreamCall, request: ConnectRequest) -> None:
    """``Connect``: output from now on; the time limit ends only this stream."""
    process = call.sandbox.processes.select(_named(request.process), ended=True)
    try:
        async with asyncio.timeout(call.timeout):
            await _follow(call, process)
    except TimeoutError:
        raise DeadlineExceededError("the stream took longer than Connect-Timeout-Ms") from None


async def update(call: Call, request: UpdateRequest) -> Empty:
    """``Update``: resizes the terminal."""
    process = call.sandbox.processes.select(_named(request.process))
    if request.pty is not None:
        process.resize(request.pty.size)
    return Empty()


async def send_input(call: Call, request: SendInputRequest) -> Empty:
    """``SendInput``."""
    await call.sandbox.processes.select(_named(request.process)).send_input(request.input)
    return Empty()


async def send_signal(call: Call, request: SendSignalRequest) -> Empty:
    """``SendSignal``: TERM and KILL only."""
    process = call.sandbox.processes.select(_named(request.process))
    signal = _SIGNALS.get(request.signal)
    if signal is None:
        raise UnimplementedError(f"signal {request.signal} is not supported")
    await process.signal(signal)
    return Empty()


async def close_stdin(call: Call, request: ConnectRequest) -> Empty:
    """``CloseStdin``."""
    await call.sandbox.processes.select(_named(request.process)).close_stdin()
    return Empty()


def stream_input(call: Call) -> Callable[[StreamInputRequest], Awaitable[None]]:
    """``StreamInput``: ``start`` selects the process for the ``data`` that follows it."""
    process: Process | None = None

    async def take(message: StreamInputRequest) -> None:
        nonlocal process
        if message.start is not None:
            process = call.sandbox.processes.select(_named(message.start.process))
        elif message.data is not None:
            if process is None:
                raise InvalidArgumentError("the data has no process: send start before it")
            await process.send_input(message.data.input)
        elif message.keepalive is None:
            raise UnimplementedError("a message must have start, data or keepalive")

    return take


async def _follow(call: StreamCall, process: Process) -> None:
    """Send the start, output and end of a process."""
    async with process.subscribe(replay_from=call.replay_from) as subscription:
        start = ProcessEvent(start=StartEvent(pid=process.pid))
        await call.send(ProcessEventResponse(event=start))
        call.writer.ping_with(call.codec.encode(_KEEPALIVE))
        await _send_output(call, subscription)


async def _send_output(call: StreamCall, subscription: Subscription) -> None:
    numbered = call.replay_from is not None
    async for item in subscription:
        if isinstance(item, Output):
            await call.writer.send_parts(call.codec.output_envelope(item, numbered=numbered))
        else:
            call.send_last(ProcessEventResponse(event=ProcessEvent(end=item.end)))


def _named(selector: ProcessSelector) -> ProcessSelector:
    if selector.pid is None and selector.tag is None:
        raise UnimplementedError("the process is not named: give pid or tag")
    return selector


def _audit_start(request: StartRequest) -> tuple[str, str]:
    # Arguments and variables may hold secrets.
    return "terminal" if request.pty is not None else "exec", request.process.cmd


def _audit_signal(request: SendSignalRequest) -> tuple[str, str]:
    return "signal", str(request.process.pid or request.process.tag or "")


METHODS: Final[dict[str, Method]] = {
    "process.Process/List": Unary(Empty, list_processes),
    "process.Process/Start": ServerStream(StartRequest, start, _audit_start),
    "process.Process/Connect": ServerStream(ConnectRequest, connect_process),
    "process.Process/Update": Unary(UpdateRequest, update),
    "process.Process/SendInput": Unary(SendInputRequest, send_input),
    "process.Process/StreamInput": ClientStream(StreamInputRequest, stream_input),
    "process.Process/SendSignal": Unary(SendSignalRequest, send_signal, _audit_signal),
    "process.Process/CloseStdin": Unary(ConnectRequest, close_stdin),
}
