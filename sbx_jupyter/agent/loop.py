"""The agent's loop: answers the engine, reports children that ended, and starts workers."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import sockets, wire, workers
from sbx_jupyter.agent.files import paths
from sbx_jupyter.agent.files.files import Files
from sbx_jupyter.agent.files.watches import Watches
from sbx_jupyter.agent.kept_sockets import KeptSockets
from sbx_jupyter.agent.outbox import Outbox
from sbx_jupyter.agent.processes.sandbox_processes import SandboxProcesses
from sbx_jupyter.agent.processes.spawn import Spawner, encode_environment
from sbx_jupyter.agent.processes.supervision import Supervision
from sbx_jupyter.agent.users import Users
from sbx_jupyter.agent.workers import BudgetExceeded, TimeBudget, Workers
from sbx_jupyter.errors import (
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    SbxError,
    UnimplementedError,
)
from sbx_jupyter.protocol import agent as protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from sbx_jupyter.agent.operation import Answer, Body, Operation


VERSION: Final = 2

_KEPT: Final = (protocol.START, protocol.ADOPT, protocol.WATCH)
"""The requests whose descriptors the agent keeps open."""

_MARKERS: Final = ("E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID")
_MARKER_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Agent:
    """The loop: one listening socket, at most one channel, and the children's ends."""

    def __init__(self, listener: socket.socket, setup: Body) -> None:
        self._listener = listener
        self._channel: Outbox | None = None
        self._greeted = False
        self._sandbox_id = setup.get("sandbox_id", "")
        root = setup.get("root", "")
        self._supervision = Supervision.from_setup(setup)
        self._has_loopback = bool(setup.get("loopback"))
        self._users = Users(virtual=setup.get("users") == "virtual", root=root)
        self._budget = TimeBudget()
        self._files = Files(self._users, root, budget=self._budget)
        self._spawner = Spawner(
            self._users,
            self._files,
            root,
            setup.get("terminals"),
            self._supervision,
            setup.get("open_files", 0),
        )
        self._watches = Watches(self._users, self._files, self._budget)
        self._workers = Workers(self._perform_apart, self._needed_apart)
        self._processes = SandboxProcesses()
        self._poll = select.poll()
        self._operations = self._make_operations()

    def _make_operations(self) -> dict[str, Operation]:
        files, spawner, watches = self._files, self._spawner, self._watches
        return {
            protocol.HELLO: self._hello,
            protocol.CONFIGURE: self._configure,
            protocol.STAT: files.stat,
            protocol.LIST_DIR: files.list_dir,
            protocol.MAKE_DIR: files.make_dir,
            protocol.MOVE: files.move,
            protocol.REMOVE: files.remove,
            protocol.RESOLVE: files.resolve,
            protocol.OPEN: files.open,
            protocol.CREATE: files.create,
            protocol.COMPOSE: files.compose,
            protocol.START: spawner.start,
            protocol.ADOPT: spawner.adopt,
            protocol.CLOSE_STDIN: spawner.close_stdin,
            protocol.RELEASE: spawner.release,
            protocol.SIGNAL: spawner.signal,
            protocol.WATCH: watches.watch,
            protocol.WATCH_ADD: watches.add,
            protocol.UNWATCH: watches.remove,
            protocol.DISARM: watches.disarm,
            **self._socket_operations(),
            protocol.USAGE: self._processes.usage,
            protocol.FREEZE: self._processes.freeze,
        }

    def _socket_operations(self) -> dict[str, Operation]:
        if self._supervision is None or not self._has_loopback:
            return {protocol.SOCKETS: sockets.open_sockets, protocol.LISTEN: sockets.listen}
        kept = KeptSockets(self._supervision.keeper_socket)
        return {protocol.CONNECT: kept.connect, protocol.LISTEN_OUTSIDE: kept.listen}

    def serve(self) -> NoReturn:
        """Answer until the sandbox is killed."""
        wakeup, wakeup_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._poll.register(wakeup, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        keeper = self._supervision if self._watch_keeper() else None
        self._report_exits()
        while True:
            for fd, events in self._poll.poll():
                if fd == wakeup:
                    _drain(wakeup)
                    self._report_exits()
                elif fd == self._listener.fileno():
                    self._accept()
                elif self._channel is not None and fd == self._channel.fileno():
                    self._serve_channel(events)
                elif fd in self._workers:
                    self._finish_apart(fd)
                elif keeper is not None and fd == keeper.keeper_socket:
                    keeper.end_all()

    def _watch_keeper(self) -> bool:
        """Ask to be told of the end of a keeper; whether there is one to be told of."""
        if self._supervision is None or not self._supervision.outlive_keeper():
            return False
        self._poll.register(self._supervision.keeper_socket, 0)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # it gave up before its turn
        self._drop_channel()
        sock.setblocking(False)
        self._channel = Outbox(sock)
        self._greeted = False
        self._poll.register(sock, select.POLLIN)

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self._poll.unregister(self._channel.fileno())
            self._channel.close()
            self._channel = None
            self._workers.forget()

    def _serve_channel(self, events: int) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            if events & select.POLLOUT:
                channel.flush()
            if events & ~select.POLLOUT:
                message = wire.receive(channel.sock)
                if message is None:
                    self._drop_channel()
                    return
                self._answer(*message)
        except BlockingIOError:
            return
        except (OSError, wire.WireError):
            self._drop_channel()
            return
        self._watch_channel()

    def _watch_channel(self) -> None:
        """Ask to be told of room in the channel while something waits for it."""
        if self._channel is not None:
            waiting = select.POLLOUT if self._channel.is_waiting else 0
            self._poll.modify(self._channel.fileno(), select.POLLIN | waiting)

    def _answer(self, body: Body, received: list[int]) -> None:
        if body.get("op") == protocol.CREATE:
            body["content"] = received[0] if received else None
        self._budget.begin()
        self._answer_now(body, received)

    def _answer_now(self, body: Body, received: list[int]) -> None:
        number, name = body.get("id"), body.get("op")
        fds: Sequence[int] = ()
        try:
            answer, fds = self._perform(name, body)
            reply = {"id": number, "ok": answer}
        except BudgetExceeded:
            apart, received = received, []
            return self._answer_apart(body, apart)
        except SbxError as error:
            reply = {"id": number, "error": workers.describe(error)}
        finally:
            wire.close_all(received)
        try:
            self._send(reply, fds, lambda: self._undo(name, reply))
        except wire.WireError:
            error = ResourceExhaustedError("the answer is too large; ask for less")
            self._send({"id": number, "error": workers.describe(error)})
        finally:
            if name not in _KEPT:
                for fd in fds:
                    os.close(fd)
        if name == protocol.HELLO:
            self._greeted = True
            for process in self._spawner.processes.values():
                if process.status is not None:
                    self._send_exit(process.pid, process.status)

    def _answer_apart(self, body: Body, received: list[int]) -> None:
        """Give a long operation to a worker; its answer is sent later, whenever it is ready."""
        try:
            self._workers.submit(body, received)
        except SbxError as error:
            if received:
                return self._answer_without_worker(body, received)
            self._send({"id": body.get("id"), "error": workers.describe(error)})
        self._start_workers()

    def _answer_without_worker(self, body: Body, received: list[int]) -> None:
        """Do now, however long it takes, what its caller cannot do in another way."""
        self._budget.pass_over()
        self._answer_now(body, received)

    def _start_workers(self) -> None:
        while True:
            started, refused = self._workers.start_waiting()
            for fd in started:
                self._poll.register(fd, select.POLLIN)
            if refused is None:
                return
            if refused.fds:
                self._answer_without_worker(refused.body, refused.fds)
                continue
            self._watches.give_up(refused.body)
            self._send(workers.short(refused.body.get("id")))

    def _needed_apart(self, body: Body) -> int:
        """The descriptor that a worker needs for a request; -1 for none."""
        content = body.get("content")
        return self._watches.descriptor_of(body) if content is None else content

    def _perform_apart(self, body: Body) -> tuple[Body, Sequence[int]]:
        """The whole answer to a request; runs in a worker."""
        self._budget.lift()
        number = body.get("id")
        try:
            answer, fds = self._perform(body.get("op"), body)
        except SbxError as error:
            return {"id": number, "error": workers.describe(error)}, ()
        return {"id": number, "ok": answer}, fds

    def _finish_apart(self, fd: int) -> None:
        self._poll.unregister(fd)
        finished, fds = self._workers.finish(fd)
        if not finished.is_success:
            self._watches.give_up(finished.body)
        try:
            if self._channel is None:
                return
            if finished.is_wanted and finished.message:
                body = finished.body
                self._channel.forward(
                    body.get("id"), finished.message, fds, lambda: self._watches.give_up(body)
                )
            elif finished.is_wanted:
                self._send(workers.lost(finished.body.get("id")))
            self._start_workers()
        except OSError:
            self._drop_channel()
            return
        finally:
            wire.close_all(fds)
        self._watch_channel()

    def _perform(self, name: object, body: Body) -> Answer:
        """Carry out a request; raises every failure as an ``SbxError``."""
        try:
            operation = self._operations.get(name) if isinstance(name, str) else None
            if operation is None:
                raise UnimplementedError(f"no such operation: {name}")
            return operation(body)
        except (SbxError, BudgetExceeded):
            raise
        except OSError as error:
            raise paths.failure(error, f"{name} failed") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"malformed request {name}: {error!r}") from error
        except Exception as error:
            # The sandbox must not die of it: an agent that ends takes every process with it.
            raise InternalError(f"{name} failed: {error!r}") from error

    def _send(
        self, body: Body, fds: Sequence[int] = (), refused: Callable[[], None] = lambda: None
    ) -> None:
        if self._channel is not None:
            self._channel.send(body, fds, refused)

    def _undo(self, name: object, reply: Body) -> None:
        """Take back what a request did whose answer could not be sent."""
        if name == protocol.START:
            self._spawner.discard(reply["ok"]["pid"])
        elif name == protocol.WATCH:
            self._watches.remove(reply["ok"])

    def _send_exit(self, pid: int, status: int) -> None:
        self._send({"event": protocol.EVENT_EXIT, "pid": pid, "status": status})

    def _report_exits(self) -> None:
        ended = self._spawner.reap()
        if not self._greeted or self._channel is None:
            return  # the exits are reported to the next engine after its hello
        try:
            for process in ended:
                if process.status is not None:
                    self._send_exit(process.pid, process.status)
        except OSError:
            self._drop_channel()
            return
        self._watch_channel()

    def _hello(self, _body: Body) -> Answer:
        processes = [process.to_json() for process in self._spawner.processes.values()]
        return {
            "version": VERSION,
            "processes": processes,
            "watches": self._watches.end_all(),
            "loopback": self._has_loopback,
        }, ()

    def _configure(self, body: Body) -> Answer:
        envs = dict(body.get("envs") or {})
        encode_environment(envs)
        default_cwd = body.get("default_cwd") or ""
        paths.check(default_cwd)
        self._spawner.envs = envs
        self._users.default = body.get("default_user") or "root"
        self._files.default_cwd = default_cwd
        _write_markers(envs)
        return {}, ()


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


def _write_markers(envs: dict[str, str]) -> None:
    """The files by which programs see that they run in a sandbox (interface 3.3)."""
    try:
        os.makedirs("/run/e2b", 0o755, exist_ok=True)
        for name in _MARKERS:
            if (value := envs.get(name)) is None:
                continue
            fd = os.open(f"/run/e2b/.{name}", _MARKER_FLAGS, 0o644)
            try:
                os.ftruncate(fd, 0)
                os.write(fd, value.encode())
            finally:
                os.close(fd)
    except OSError:
        pass  # hostile code may have put other things there; it only deceives itself
