"""Turns a process that the zygote has forked into a sandbox.

Standard library only, for the zygote.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from sbx_jupyter.isolation.confined import guardian, keeper, setup
from sbx_jupyter.isolation.kernel import syscalls, tap, users
from sbx_jupyter.isolation.zygote import forks, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.zygote.config import ZygoteConfig
    from sbx_jupyter.isolation.zygote.order import Order


@dataclass(slots=True)
class Fork:
    """The process, with its end of what the zygote made for it."""

    config: ZygoteConfig
    order: Order
    control: socket.socket
    """The zygote's, which is not for the sandbox."""
    mapped: int
    """A socket on which the zygote says that the ids of the process are mapped."""
    report: int
    """A pipe on which the process says how set-up ended."""
    listener: int
    run_agent: Callable[[int, dict[str, Any]], Any]

    def become_sandbox(self) -> NoReturn:
        """Enter the sandbox's root file system and be its agent."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.control.close()
            kept = forks.keep_only(self.listener, self.report, self.mapped)
            self.listener, self.report, self.mapped = kept
            mounts = forks.wait_for_release(self.mapped)
            forks.be_killed_first()
            _make_tap(self.order)
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            os.setsid()
            real = self.config.users != users.VIRTUAL
            open_files = namespaces.open_files_of_programs(self.order, own_ids=real)
            namespaces.enter(self.order, self.config.host, mounts)
            forks.close_all_but(self.listener, self.report)
            self._report_success()
            self.run_agent(
                self.listener,
                {
                    "sandbox_id": self.order.sandbox_id,
                    "users": "real" if real else "virtual",
                    "landlock": False,
                    "open_files": open_files,
                },
            )
        except namespaces.SetupError as error:
            os.write(self.report, str(error).encode()[:4000])
        except BaseException:
            forks.last_words(self.report, traceback.format_exc())
        os._exit(1)

    def become_keeper(self) -> NoReturn:
        """Stay outside as the keeper of the process that becomes a sandbox without namespaces."""
        try:
            self.control.close()
            confine = self.order.confine
            readable = self.config.readable if confine else os.open(os.devnull, os.O_RDONLY)
            kept = forks.keep_only(self.listener, self.report, self.mapped, readable)
            self.listener, self.report, self.mapped, readable = kept
            if os.read(self.mapped, 1) != b"1":
                os._exit(1)
            os.close(self.mapped)
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            root = keeper.prepare(self.order, self.config.host.data)
            requests, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            own = os.getpid()
            agent = os.fork()
            if agent == 0:
                guardian.die_with(own, signal.SIGKILL)
                requests.close()
                self._become_confined(inside.detach(), readable)
            inside.close()
            (end,) = forks.keep_only(requests.detach())
            keeper.keep(self.order, agent, end, root)
        except BaseException:
            forks.last_words(self.report, traceback.format_exc())
        os._exit(1)

    def _become_confined(self, requests: int, readable: int) -> NoReturn:
        try:
            forks.be_killed_first()
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            host, order = self.config.host, self.order
            open_files = namespaces.open_files_of_programs(order, own_ids=False)
            more = setup.enter(order, host.data, host.stock, self.config.plan, readable)
            self._report_success()
            who = {"sandbox_id": order.sandbox_id, "users": "virtual", "landlock": True}
            more |= {"keeper": requests, "open_files": open_files}
            self.run_agent(self.listener, who | more)
        except namespaces.SetupError as error:
            os.write(self.report, str(error).encode()[:4000])
        except BaseException:
            forks.last_words(self.report, traceback.format_exc())
        os._exit(1)

    def _report_success(self) -> None:
        os.write(self.report, b"ok")
        os.close(self.report)


def _make_tap(order: Order) -> None:
    if order.tap:
        try:
            tap.make()
        except OSError as error:
            raise namespaces.SetupError(f"the network interface: {error}") from error
