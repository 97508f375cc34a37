"""The zygote: a small process with everything loaded, of which each sandbox is a fork.

It is executed fresh (nothing of the engine's memory or environment), has one thread, and answers
requests on its control socket. It ends when that socket closes; the sandboxes go on without it.
Standard library only: it starts with ``python -I -S``.
"""

from __future__ import annotations

# Modules that the agent may need after the host's standard library is out of sight.
import encodings.ascii
import encodings.idna
import encodings.latin_1
import gc
import json
import linecache
import os
import select
import signal
import socket
import stringprep
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sbx_jupyter.agent import procfs, wire
from sbx_jupyter.isolation.confined import guardian, setup
from sbx_jupyter.isolation.ids.blocks import NoBlockLeftError, open_blocks
from sbx_jupyter.isolation.ids.holder import Holder
from sbx_jupyter.isolation.ids.own_ids import OwnIds
from sbx_jupyter.isolation.kernel import landlock, syscalls, users
from sbx_jupyter.isolation.root import rootfs, stock_plan
from sbx_jupyter.isolation.zygote import cage_records, forks, host_mounts, namespaces, worker
from sbx_jupyter.isolation.zygote.config import ZygoteConfig
from sbx_jupyter.isolation.zygote.forked import Fork
from sbx_jupyter.isolation.zygote.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.ids.blocks import Block

_PRELOADED = (encodings.ascii, encodings.idna, encodings.latin_1, linecache, stringprep)


class _KilledError(Exception):
    """A process was killed before it could begin; a second try may succeed."""


class Zygote:
    """Serves one control socket."""

    def __init__(self, control: socket.socket, run_agent: Callable[[int, dict[str, Any]], Any]):
        self._control = control
        self._run_agent = run_agent
        self._config: ZygoteConfig | None = None
        self._cages = cage_records.CageRecords(Path())
        self._holder: Holder | None = None
        self._own_ids: OwnIds | None = None
        self._workers: dict[int, Any] = {}
        """The requests that workers answer, by the pidfds of the workers."""

        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> NoReturn:
        """Answer requests until the engine closes the socket."""
        # The kernel reaps ignored children; code that waits for one uses a pidfd.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._control.fileno():
                    self._serve_one()
                elif self._own_ids is not None and fd == self._own_ids.fileno():
                    self._own_ids.replace_holder()
                elif fd in self._workers:  # not what was closed over an earlier one of these
                    self._end_worker(fd)

    def _serve_one(self) -> None:
        try:
            message = wire.receive(self._control)
        except ConnectionResetError:
            message = None  # it ended with an answer of ours unread
        except OSError as error:
            print(f"sbx-jupyter: the engine is gone: {error}", file=sys.stderr, flush=True)
            message = None
        if message is None:
            os._exit(0)
        body, fds = message
        try:
            reply, given = self._handle(body, fds)
        except NoBlockLeftError as error:
            self._fail(body.get("id"), str(error), "resource_exhausted")
        except _KilledError as error:
            self._fail(body.get("id"), str(error), "aborted")
        except (OSError, KeyError, TypeError, ValueError, subprocess.SubprocessError) as error:
            self._fail(body.get("id"), _text(error))
        else:
            if reply is not None:
                self._answer(body["id"], reply, given)
            wire.close_all(given)
        finally:
            wire.close_all(fds)

    def _end_worker(self, pidfd: int) -> None:
        """Answer for a worker that was killed. After its own answer, this one is not heard."""
        self._poll.unregister(pidfd)
        os.close(pidfd)
        self._fail(self._workers.pop(pidfd), "the helper of the engine was killed", "aborted")

    def _handle(
        self, body: dict[str, Any], fds: list[int]
    ) -> tuple[dict[str, Any] | None, list[int]]:
        match body["op"]:
            case "enter":
                return self._enter(body), []
            case "init":
                return self._init(body), []
            case "create":
                return self._create(body, fds)
            case op if op in worker.OPERATIONS:
                return self._run_apart(body, fds), []
            case _:
                raise ValueError(f"unknown request {body['op']!r}")

    def _answer(self, request_id: Any, reply: dict[str, Any], given: list[int]) -> None:
        try:
            wire.send(self._control, {"id": request_id, "ok": reply}, given)
        except OSError as error:
            if given:  # a sandbox that no engine will ever hear of
                kept = self._need_config().users == users.HOST
                signal.pidfd_send_signal(given[0], signal.SIGTERM if kept else signal.SIGKILL)
            if error.errno not in wire.SHORTAGE:
                os._exit(0)
            self._fail(request_id, _text(error), "resource_exhausted")

    def _fail(self, request_id: Any, text: str, code: str = "failed_precondition") -> None:
        try:
            wire.send(self._control, {"id": request_id, "error": {"code": code, "message": text}})
        except OSError:
            os._exit(0)  # the engine is gone

    def _enter(self, body: dict[str, Any]) -> dict[str, Any]:
        """Leave the host's namespaces; the engine then maps the ids where it must."""
        if body["users"] == users.HOST:
            return {}
        if body["own_ids"]:
            self._holder = Holder()  # before this process leaves the host's mounts
        flags = syscalls.CLONE_NEWNS
        if body["users"] != users.ROOT_MAPPED:
            flags |= syscalls.CLONE_NEWUSER
        syscalls.unshare(flags)
        if body["users"] == users.VIRTUAL:
            uid, gid = body["uid"], body["gid"]
            _write("/proc/self/setgroups", "deny")
            users.write_maps(os.getpid(), f"{uid} {uid} 1", f"{gid} {gid} 1")
        return {}

    def _init(self, body: dict[str, Any]) -> dict[str, Any]:
        kind, base = body["users"], body["id_base"]
        if kind == users.SUBORDINATE:
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        plan = stock_plan.StockPlan.from_json(body["plan"])
        data = Path(body["data_dir"])
        own_uid, own_gid = os.getuid(), os.getgid()
        readable = -1
        if kind == users.HOST:
            stock = data / "stock" / plan.fingerprint
            rootfs.build_stock(plan, stock)
            gathered = host_mounts.HostMounts("", "", str(data), (), str(stock))
            if (version := body["landlock_abi"]) >= landlock.NEEDED_ABI:
                readable = setup.readable_of_host(str(data), plan, version)
                setup.prepare()
        else:
            owner = base if kind == users.ROOT_MAPPED else 0
            own = self._holder is not None
            known = body["stock"]
            gathered = host_mounts.prepare(data, plan, owner, own_ids=own, stock=known)
            stock = data / gathered.stock
            namespaces.prepare(virtual_users=kind == users.VIRTUAL)
        self._cages = cage_records.CageRecords(data / "cages")
        if self._holder is not None:
            blocks = open_blocks(body["host_ids"], body["local_ids"])
            self._own_ids = OwnIds(blocks, self._holder, self._cages, self._poll)
        self._config = ZygoteConfig(kind, base, own_uid, own_gid, plan, gathered, readable)
        gc.collect()
        gc.freeze()
        return {"stock": str(stock)}

    def _create(self, body: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Fork a sandbox: answers its pid with a pidfd and a pipe that tells how set-up ended."""
        config = self._need_config()
        order = Order.from_json(body["order"])
        listener = fds[0]
        cgroup = fds[1] if len(fds) > 1 else None
        block = None if self._own_ids is None else self._own_ids.take()
        release, mapped = socket.socketpair()
        outcome, report = os.pipe2(os.O_CLOEXEC)
        given = [outcome]
        try:
            kept = config.users == users.HOST
            pid, pidfd = guardian.fork_guarded(cgroup) if kept else forks.fork_sandbox(cgroup)
            given = [pidfd, outcome]
            if pid == 0:
                release.close()  # so that the other end is told when the zygote ends
                run = self._run_agent
                fork = Fork(config, order, self._control, mapped.fileno(), report, listener, run)
                become = fork.become_keeper if kept else fork.become_sandbox
                become()
            ids = self._give_ids(config, pid, pidfd, block)
            with forks.closing(host_mounts.map_to(pid, config.host)) as mounts:
                # Before any of it runs: an engine that dies now leaves nothing that is not found.
                record = {**body["record"], **ids, **procfs.identity(pid)}
                self._cages.write(order.sandbox_id, record)
                wire.transmit(release, [b"1"], mounts)
        except OSError as error:
            is_killed = len(given) > 1 and procfs.has_ended(given[0])
            wire.close_all(given)
            if is_killed:
                raise _KilledError("the sandbox was killed while it was made") from error
            raise
        finally:
            mapped.close()
            release.close()
            os.close(report)
            if block is not None:
                os.close(block.lock)
        return {"pid": pid}, given

    def _give_ids(
        self, config: ZygoteConfig, pid: int, pidfd: int, block: Block | None
    ) -> dict[str, int]:
        """Map the ids of a process that waits; returns what its record says about them."""
        if config.users == users.HOST:
            return {}
        base = config.id_base if block is None else block.base
        uid_map = users.sandbox_map(config.users, base, config.own_uid)
        gid_map = users.sandbox_map(config.users, base, config.own_gid)
        users.write_maps(pid, uid_map, gid_map)
        if block is None or self._own_ids is None:
            return {}
        self._own_ids.keep(pidfd, block)
        return {"id_base": base}

    def _run_apart(self, body: dict[str, Any], fds: list[int]) -> None:
        """Do work on files of any owner in a separate process, which sends the answer itself."""
        config = self._need_config()
        # A program keeps its capabilities over what a sandbox made only as id 0 of a namespace;
        # into the sandbox's processes this one may look as the owner of theirs.
        nested = config.users == users.VIRTUAL and body["op"] != "open_files"
        parent = os.getpid()
        mapped, release = os.pipe2(os.O_CLOEXEC)
        pid, pidfd = syscalls.fork_into(syscalls.CLONE_NEWUSER if nested else 0)
        if pid == 0:
            os.close(release)  # so that the pipe ends with the zygote
            if os.read(mapped, 1) != b"1":
                os._exit(0)
            worker.work(self._control, body, fds, kind=config.users, parent=parent)
        self._workers[pidfd] = body["id"]
        self._poll.register(pidfd, select.POLLIN)
        try:
            if nested:
                users.write_maps(pid, f"0 {config.own_uid} 1", f"0 {config.own_gid} 1")
            os.write(release, b"1")
        except OSError as error:
            if not procfs.has_ended(pidfd):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                raise
            raise _KilledError("the helper of the engine was killed") from error
        finally:
            os.close(mapped)
            os.close(release)

    def _need_config(self) -> ZygoteConfig:
        if self._config is None:
            raise ValueError("the zygote was not initialised")
        return self._config


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _write(path: str, text: str) -> None:
    Path(path).write_text(text)


def main(control_fd: int, agent: str) -> NoReturn:
    """Run the zygote on an inherited control socket with the agent of module ``agent``."""
    import importlib

    run_agent = importlib.import_module(agent).run
    Zygote(socket.socket(fileno=control_fd), run_agent).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
