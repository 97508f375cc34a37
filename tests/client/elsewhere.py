"""Run by a test: the parts that people use on macOS and Windows, without what only Linux has.

Takes away from the modules of this package, and of no other, the modules and functions that these
systems lack. Prints what it found as one JSON object.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
import json
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

SYSTEM = sys.argv[1]
CHECKOUT, DATA_DIR = sys.argv[2:4]

MODULES = {
    "darwin": {"spwd"},
    "win32": {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"},
}
LINUX = {
    "os": (
        *("eventfd", "memfd_create", "pidfd_open", "sched_getaffinity", "setns", "splice"),
        *("unshare", "getxattr", "setxattr", "posix_fallocate", "O_PATH", "O_TMPFILE"),
    ),
    "signal": ("pidfd_send_signal", "sigtimedwait"),
    "socket": ("SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "AF_NETLINK"),
    "select": ("epoll",),
}
UNIX = {
    "os": (
        *("fork", "getuid", "geteuid", "getgid", "killpg", "mkfifo", "O_CLOEXEC", "O_NOFOLLOW"),
        *("O_DIRECTORY", "O_NONBLOCK", "posix_spawn", "setsid", "sysconf", "uname", "WNOHANG"),
        *("chown", "fchown", "openpty", "statvfs", "sendfile", "writev", "preadv", "fchdir"),
        *("getloadavg", "setpriority", "setresuid", "waitid", "POSIX_SPAWN_OPEN"),
    ),
    "signal": ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGUSR1", "SIGSTOP", "SIGCONT"),
    "socket": ("AF_UNIX", "recv_fds", "send_fds", "SCM_RIGHTS", "socketpair"),
    "select": ("poll",),
}

PARTS = [
    "sbx_jupyter.client",
    "sbx_jupyter.client.connection.configured",
    "sbx_jupyter.server.extension",
    "sbx_jupyter.widgets",
    "sbx_jupyter.magics.extension",
    "sbx_jupyter.kernel.provisioner",
    "sbx_jupyter.cli.main",
    "sbx_jupyter.cli.engine",
    "sbx_jupyter.cli.sandboxes",
    "sbx_jupyter.cli.templates",
]
"""Public faces and what they import only when it is used."""


class Lacking(ModuleType):
    """A module of the standard library without what this system lacks."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        gone = {*LINUX.get(name, ()), *(UNIX.get(name, ()) if SYSTEM == "win32" else ())}
        self._real, self._gone = import_module(name), gone
        if name == "sys":
            self.platform = SYSTEM

    def __getattr__(self, name: str) -> Any:
        if name in self._gone:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        return getattr(self._real, name)


STAND_INS = {name: Lacking(name) for name in ("os", "signal", "socket", "select", "sys")}
_import = builtins.__import__


def import_elsewhere(name: str, *arguments: Any, **named: Any) -> Any:
    """Import for our modules what another system has; for all others, what there is."""
    space = named.get("globals") or (arguments[0] if arguments else None) or {}
    if not str(space.get("__name__", "")).startswith("sbx_jupyter"):
        return _import(name, *arguments, **named)
    if name in MODULES[SYSTEM]:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return STAND_INS.get(name) or _import(name, *arguments, **named)


def loaded(name: str) -> str:
    """The error that importing a module gives, or nothing."""
    try:
        import_module(name)
    except (ImportError, AttributeError) as error:
        return repr(error)
    return ""


async def asked(found: dict[str, Any]) -> None:
    """What the server answers for "New", and what it says of the local connection."""
    import logging

    from sbx_jupyter.client.connection.named_connections import NamedConnection, collect_connections
    from sbx_jupyter.errors import UnavailableError
    from sbx_jupyter.server.deployments import sandbox_calls
    from sbx_jupyter.server.deployments.connection import Connection, SandboxDefaults
    from sbx_jupyter.server.deployments.local_engine import EngineSettings, LocalEngine
    from sbx_jupyter.server.kernel_environment import KernelEnvironment

    log = logging.getLogger("elsewhere")
    log.disabled = True
    named: dict[str, NamedConnection] = collect_connections({}, {}, offer_local=True)
    engine = LocalEngine(EngineSettings(data_dir=DATA_DIR), log=log)
    local = Connection(named["local"], SandboxDefaults(), log=log, engine=engine)
    found["described"] = local.describe()
    environment = KernelEnvironment(engine, log=log)
    environment.apply(local)
    found["environment"] = sorted(name for name in os.environ if name.startswith("E2B_"))
    try:
        await sandbox_calls.create(local, template=None, timeout=None, metadata={}, envs={})
    except UnavailableError as error:
        found["new"] = error.message
    environment.close()
    await local.aclose()


def typed(*arguments: str) -> tuple[int, str]:
    """The exit code and the error output of a command."""
    from sbx_jupyter.cli.main import main

    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(arguments)
    return code, errors.getvalue()


def magics() -> str:
    """The magics of a shell that loads them."""
    from IPython.core.interactiveshell import InteractiveShell

    import sbx_jupyter

    shell = InteractiveShell.instance()
    sbx_jupyter.load_ipython_extension(shell)
    return str(
        sorted(kind for kind in ("line", "cell") if "sbx" in shell.magics_manager.magics[kind])
    )


def remote(api_url: str, key: str) -> list[str]:
    """The standard output of a command in a sandbox of another deployment."""
    from sbx_jupyter import ConnectionConfig, Sandbox

    config = ConnectionConfig(api_url=api_url, api_key=key, sandbox_url=api_url)
    with Sandbox.create(config=config) as box:
        box.files.write("here.txt", "written elsewhere")
        return [box.commands.run("cat here.txt").stdout]


def main() -> None:
    sys.path.insert(0, CHECKOUT)
    builtins.__import__ = import_elsewhere
    found: dict[str, Any] = {"failed": {name: why for name in PARTS if (why := loaded(name))}}
    asyncio.run(asked(found))
    found["engine"] = typed("engine", "--port", "0")
    found["doctor"] = typed("doctor")
    found["magics"] = magics()
    found["remote"] = remote(*sys.argv[4:6])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
