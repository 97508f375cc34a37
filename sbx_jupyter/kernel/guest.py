"""Runs inside a sandbox: starts kernels and joins the channels of each to one WebSocket.

Called as ``python guest.py [MODULE...]``. It imports ``ipykernel`` and the modules first, while it
has one thread, and says ``{"ready": true}``. Then it forks for each kernel, which so starts without
imports and shares their memory with the others of its sandbox, and with nothing outside.

Requests are lines of JSON on its input, and what it says are lines of JSON on its output:

``{"id", "folder", "connection", "token", "argv", "envs", "cwd"}`` starts a kernel; an empty program
in ``argv`` is this Python, and a ``cwd`` that is not there is left out
    -> ``{"id", "port"}`` when its channels are served, or ``{"id", "error"}``
    -> ``{"id", "exit"}`` when it has ended
``{"id", "kill": true}`` ends a kernel and all that it started
``{"id", "ask": true}``
    -> ``{"id", "exit"}`` again, if it has ended

Each binary WebSocket message is one message of a channel: a byte with the number of the channel in
``CHANNELS``, then every frame with its length in four bytes before it. A text message is a signal
for the kernel and all that it started, by its number.

This file imports nothing of its package, since only its text is sent into the sandbox.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import gc
import hashlib
import hmac
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")
CUT = "sbx_cut"
"""The type of a message that says how many bytes of output are left out at its place."""
TOKEN_HEADER = "X-Kernel-Token"
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes; a larger message of the kernel never leaves the sandbox, printed text goes in pieces."""
_MOST_TEXT = 8 * MAX_MESSAGE
"""Bytes of printed text in one message that are taken apart; of more only the size is told."""
_PIECE = 4 * 1024 * 1024
"""Characters, each of which takes up to six bytes in a message."""
_MOST_WAITING = 32 * 1024 * 1024
"""Bytes of output that wait for the caller; of more, only the end is kept."""
_END = 256 * 1024
_TAIL = 16 * 1024
"""Characters of the end of the last text, where that is longer than all that is kept."""
_EACH = 512
"""Bytes counted for a message besides its own, so that short ones have a limit as well."""
_TURN = 64
"""Messages that are read before something else has its turn."""

FORKED = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
"""The arguments of kernels that need no program of their own."""

_DELIMITER = b"<IDS|MSG>"
_LENGTH = struct.Struct(">I")
_GRACE = 0.2
_PR_SET_PDEATHSIG = 1
_MAX_REQUEST = 1024 * 1024


def pack(channel: int, frames: list[bytes]) -> bytes:
    """One message of a channel as bytes."""
    parts = [bytes([channel])]
    for frame in frames:
        parts += (_LENGTH.pack(len(frame)), frame)
    return b"".join(parts)


def unpack(raw: bytes, most: int | None = None) -> tuple[int, list[bytes]]:
    """The channel and the frames of a message.

    Raises ``ValueError`` for anything else, and for more frames than ``most``.
    """
    if not raw or raw[0] >= len(CHANNELS):
        raise ValueError("not a message of a channel")
    frames: list[bytes] = []
    at = 1
    while at < len(raw):
        if at + _LENGTH.size > len(raw):
            raise ValueError("a length is cut")
        (size,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if at + size > len(raw):
            raise ValueError("a frame is cut")
        if len(frames) == most:
            raise ValueError("too many frames")
        frames.append(raw[at : at + size])
        at += size
    return raw[0], frames


def smaller(frames: list[bytes], key: bytes) -> Iterator[list[bytes]]:
    """Printed text that is too large for one message in several; of others, their size in words."""
    header, parent, metadata, content = _parts(frames)
    about = json.loads(header)
    if about["msg_type"] == "stream" and len(content) <= _MOST_TEXT:
        fields = json.loads(content)
    else:
        count = sum(map(len, frames)) // 1024**2
        fields = {"name": "stderr", "text": f"[cut: {count} MiB of output at once are left out]\n"}
    for start in range(0, len(fields["text"]), _PIECE):
        own = about | {"msg_type": "stream", "msg_id": f"{about['msg_id']}_{start}"}
        said = fields | {"text": fields["text"][start : start + _PIECE]}
        yield _signed([json.dumps(own).encode(), parent, metadata, json.dumps(said).encode()], key)


class _Last:
    """The last messages of a kind, at least one and else within a size."""

    def __init__(self) -> None:
        self.frames: collections.deque[list[bytes]] = collections.deque()
        self._size = 0

    def add(self, frames: list[bytes]) -> Iterator[list[bytes]]:
        """Keep a message; gives those for which there is no room any more."""
        self.frames.append(frames)
        self._size += _size(frames)
        while self._size > _END and len(self.frames) > 1:
            first = self.frames.popleft()
            self._size -= _size(first)
            yield first


class Backlog:
    """Output of the kernel that the caller has not taken: the beginning and the end, within a size.

    All of it is read at once, since a kernel drops what nobody reads, and so the news that it is
    idle. Pages wait for that.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._waiting: collections.deque[list[bytes]] = collections.deque()
        self._size = 0
        self._texts, self._others = _Last(), _Last()
        self._idle: collections.deque[list[bytes]] = collections.deque(maxlen=_TURN)
        self._cut = 0
        self._arrived = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting or self._texts.frames or self._others.frames)

    def add(self, frames: list[bytes]) -> None:
        """Keep a message; where there is no room for all, only the last ones. Others are left."""
        if len(_parts(frames)) < 4:
            return
        is_cutting = bool(self._texts.frames or self._others.frames)
        # The beginning is kept however long it is.
        has_room = not self._waiting or self._size + _size(frames) <= _MOST_WAITING
        if has_room and not is_cutting:
            self._waiting.append(frames)
            self._size += _size(frames)
        else:
            last = self._texts if b'"stream"' in _parts(frames)[0] else self._others
            for dropped in last.add(frames):
                self._drop(dropped)
        self._arrived.set()

    async def take(self) -> list[bytes]:
        """Wait for the next message."""
        while not self._waiting:
            if self:
                self._resume()
                continue
            self._arrived.clear()
            await self._arrived.wait()
        frames = self._waiting.popleft()
        self._size -= _size(frames)
        return frames

    def _drop(self, frames: list[bytes]) -> None:
        header, _, _, content = _parts(frames)
        if b'"status"' in header and b'"idle"' in content:
            self._idle.append(frames)
        else:
            # A character that is no text takes six bytes.
            self._cut += len(content) - 5 * content.count(b"\\u")

    def _resume(self) -> None:
        """Go on after the gap: with its size, the end of what was printed, and the rest."""
        end = [*self._texts.frames, *self._others.frames]
        if len(self._texts.frames) == 1 and _size(end[0]) > _END:
            self._drop(end[0])
            end[:1] = self._tail_of(end[0])
        if self._cut:
            parent = _parts(end[-1])[1] if end else b"{}"
            header = {"msg_type": CUT, "msg_id": f"{CUT}_{time.monotonic_ns()}"}
            content = {"size": self._cut}
            parts = [json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]
            self._waiting.append(_signed(parts, self._key))
        self._waiting += [*self._idle, *end]
        self._size = sum(map(_size, self._waiting))
        self._texts, self._others = _Last(), _Last()
        self._idle.clear()
        self._cut = 0

    def _tail_of(self, frames: list[bytes]) -> list[list[bytes]]:
        """The end of a long text, if it is one."""
        header, parent, metadata, content = _parts(frames)
        try:
            fields = json.loads(content[:_MOST_TEXT])
            said = fields | {"text": fields["text"][-_TAIL:]}
        except (ValueError, TypeError, KeyError, RecursionError):
            return []
        return [_signed([header, parent, metadata, json.dumps(said).encode()], self._key)]


def _parts(frames: list[bytes]) -> list[bytes]:
    """Header, parent header, metadata and content of a message; fewer of what is none."""
    at = frames.index(_DELIMITER) if _DELIMITER in frames else len(frames)
    return frames[at + 2 : at + 6]


def _signed(parts: list[bytes], key: bytes) -> list[bytes]:
    signature = hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest()
    return [b"", _DELIMITER, signature.encode(), *parts]


def _size(frames: list[bytes]) -> int:
    return _EACH + sum(map(len, frames))


class Guest:
    """The kernel's channels, and the one caller that is joined to them."""

    def __init__(self, connection: dict[str, Any], token: str) -> None:
        import zmq
        import zmq.asyncio

        self.token = token
        self._key = connection["key"].encode()
        self._context = zmq.asyncio.Context()
        self._sockets: list[Any] = []
        for name in CHANNELS:
            kind = zmq.SUB if name == "iopub" else zmq.DEALER
            channel = self._context.socket(kind)
            channel.linger = 0
            # The kernel binds a moment later.
            channel.reconnect_ivl = 10
            if kind == zmq.SUB:
                channel.subscribe(b"")
                channel.rcvhwm = 0  # the limit is the backlog's
            else:
                # The kernel sends a request for input to the one that sent the code.
                channel.identity = b"guest"
            channel.connect(_address(connection, connection[f"{name}_port"]))
            self._sockets.append(channel)
        self._backlog = Backlog(self._key)
        self.caller: Any = None
        self._joined = asyncio.Event()

    def join(self, caller: Any) -> None:
        """Send everything to this caller from now on; an earlier one is left."""
        if self.caller is not None:
            self.caller.close()
        self.caller = caller
        self._joined.set()

    def leave(self, caller: Any) -> None:
        """Keep what the kernel sends until somebody joins again, as far as its queues reach."""
        if self.caller is caller:
            self.caller = None
            self._joined.clear()

    async def forward(self, raw: bytes) -> None:
        """Pass a message of the caller on to the kernel."""
        channel, frames = unpack(raw)
        await self._sockets[channel].send_multipart(frames)

    async def pump(self, channel: int) -> None:
        """Pass the messages of one channel on to the caller, for ever."""
        if CHANNELS[channel] == "iopub":
            await asyncio.gather(self._read_output(channel), self._pump_output(channel))
        while True:
            await self._joined.wait()
            frames: list[bytes] = await self._sockets[channel].recv_multipart()
            if sum(map(len, frames)) <= MAX_MESSAGE:
                await self._send(pack(channel, frames))

    async def _read_output(self, channel: int) -> None:
        while True:
            for _ in range(_TURN):
                self._backlog.add(await self._sockets[channel].recv_multipart())
            # Messages that are there already are received without a wait.
            await asyncio.sleep(0)

    async def _pump_output(self, channel: int) -> None:
        while True:
            frames = await self._backlog.take()
            if sum(map(len, frames)) <= MAX_MESSAGE:
                await self._send(pack(channel, frames))
            else:
                for piece in smaller(frames, self._key):
                    await self._send(pack(channel, piece))

    async def _send(self, raw: bytes) -> None:
        from tornado.websocket import WebSocketClosedError

        while True:
            await self._joined.wait()
            caller = self.caller
            try:
                await caller.write_message(raw, binary=True)
                return
            except WebSocketClosedError:
                self.leave(caller)


def _address(connection: dict[str, Any], port: int) -> str:
    colon = ":" if connection["transport"] == "tcp" else "-"
    return f"{connection['transport']}://{connection['ip']}{colon}{port}"


async def serve(request: dict[str, Any], kernel: int) -> int:
    """Serve the channels of a kernel until it ends; return its exit status."""
    import tornado.httpserver
    import tornado.netutil

    guest = Guest(request["connection"], request["token"])
    ended = asyncio.get_running_loop().create_future()
    _when_ended(kernel, ended)
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(_application(guest, kernel)).add_sockets(sockets)
    _say(id=request["id"], port=sockets[0].getsockname()[1])
    pumps = [asyncio.create_task(guest.pump(number)) for number in range(len(CHANNELS))]
    status: int = await ended
    _signal(kernel, signal.SIGKILL)
    # What the kernel said last is still in the queues.
    await asyncio.wait(pumps, timeout=_GRACE)
    return status


def _application(guest: Guest, kernel: int) -> Any:
    """The tornado application with the one route, to the channels of a kernel."""
    import tornado.web
    import tornado.websocket

    class Channels(tornado.websocket.WebSocketHandler):
        def prepare(self) -> None:
            given = self.request.headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(given.encode(), guest.token.encode()):
                raise tornado.web.HTTPError(403)

        def check_origin(self, origin: str) -> bool:
            return False  # no page has any business here

        def open(self, *args: str, **kwargs: str) -> None:
            self.set_nodelay(True)
            guest.join(self)

        async def on_message(self, message: str | bytes) -> None:
            if isinstance(message, bytes):
                await guest.forward(message)
            elif message.isdecimal():
                _signal(kernel, int(message))

        def on_close(self) -> None:
            guest.leave(self)

    return tornado.web.Application(
        [("/channels", Channels)],
        websocket_max_message_size=2 * MAX_MESSAGE,
        websocket_ping_interval=20,
    )


def _when_ended(pid: int, ended: asyncio.Future[int]) -> None:
    """Set the result to the exit status of a child process when that ends."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(pid)

    def reap() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        ended.set_result(_exit_code(status))

    loop.add_reader(descriptor, reap)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _say(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _run_session(request: dict[str, Any]) -> int:
    """Start the kernel of a request and serve it; return its exit status."""
    os.setsid()
    folder = Path(request["folder"])
    folder.mkdir(mode=0o700)
    file = folder / "connection.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(request["connection"]))
    kernel = os.fork()
    if kernel == 0:
        _end_with(_become_kernel, request, str(file))
    return asyncio.run(serve(request, kernel))


def _become_kernel(request: dict[str, Any], file: str) -> int:
    os.setsid()
    _die_with_parent()
    # The output is not for what the kernel prints by itself.
    os.dup2(2, 1)
    os.environ.update(request["envs"])
    with contextlib.suppress(OSError):
        os.chdir(request["cwd"])
    program, *arguments = request["argv"]
    if program or tuple(arguments[: len(FORKED)]) != FORKED:
        arguments = [argument.replace("{connection_file}", file) for argument in arguments]
        program = program or sys.executable
        os.execvp(program, [program, *arguments])
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # the same in each fork otherwise
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    app.initialize(["-f", file, *arguments[len(FORKED) :]])  # pyright: ignore[reportUnknownMemberType] - untyped there
    app.start()
    return 0


def _end_with(work: Any, *arguments: Any) -> NoReturn:
    """Do work in this process and end it with the status."""
    status = 1
    try:
        status = work(*arguments)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


class Zygote:
    """Forks a process for each kernel, and says how each ended."""

    def __init__(self) -> None:
        self._running: dict[int, int] = {}
        """The number of the request by process id."""
        self._ended: dict[int, int] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._rest = b""

    def run(self) -> None:
        """Serve until the input ends; then end with all kernels."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        while True:
            ready, _, _ = select.select([0, self._wake_read], [], [])
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                self._reap()
            if 0 in ready and not self._read():
                break
        for pid in self._running:
            _signal(pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Do what is requested; false at the end of the input."""
        chunk = os.read(0, 65536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._do(json.loads(line))
        return bool(chunk) and len(self._rest) <= _MAX_REQUEST

    def _do(self, request: dict[str, Any]) -> None:
        number = request["id"]
        if request.get("ask"):
            if number in self._ended:
                _say(id=number, exit=self._ended[number])
        elif request.get("kill"):
            for pid, each in self._running.items():
                if each == number:
                    _signal(pid, signal.SIGKILL)
        elif (program := request["argv"][0]) and shutil.which(program) is None:
            _say(id=number, error=f"there is no {program} in the sandbox{_how_to_show(program)}")
        else:
            self._fork(request)

    def _fork(self, request: dict[str, Any]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            _say(id=request["id"], error=f"no process can be started: {error.strerror}")
            return
        if pid:
            self._running[pid] = request["id"]
            return
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        _die_with_parent()
        _end_with(_run_session, request)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (number := self._running.pop(pid, None)) is not None:
                self._ended[number] = _exit_code(status)
                _say(id=number, exit=self._ended[number])


def _how_to_show(program: str) -> str:
    """How a program of another environment of the machine is seen in a sandbox."""
    path = Path(program)
    if not path.is_absolute() or path.parent.name != "bin":
        return ""
    prefix = path.parent.parent
    return f"; --SandboxProvisioner.show={prefix} shows it that environment, read-only"


def _preload(modules: list[str]) -> None:
    """Import what kernels need, and of the modules those that are there."""
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    sys.argv = ["ipykernel_launcher"]
    # Read when matplotlib is imported; a kernel sets it otherwise.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    needed = ["zmq.asyncio", "tornado.httpserver", "tornado.websocket"]
    kernels = ["ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "comm"]
    for name in [*needed, *kernels, *modules]:
        # A module that fails here fails in the kernel, where somebody reads why.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what lives now lives for ever: its pages stay shared


def main() -> None:
    for needed in ("tornado", "zmq"):
        if importlib.util.find_spec(needed) is None:
            _say(error=f"the sandbox's Python lacks {needed}")
            sys.exit(1)
    _preload(sys.argv[1:])
    _say(ready=True)
    Zygote().run()


if __name__ == "__main__":
    main()
