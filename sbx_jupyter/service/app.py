"""The engine as an application: configuration, start, signals and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ctypes
import logging
import os
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Final

from traitlets.config import Application

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol.locations import (
    API_KEY_VARIABLE,
    ConnectionFile,
)
from sbx_jupyter.service import credentials
from sbx_jupyter.service.addresses import Listener
from sbx_jupyter.service.idleness import wait_until_idle
from sbx_jupyter.service.log_format import open_log
from sbx_jupyter.service.separation import give_up_privileges
from sbx_jupyter.service.settings import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.engine.engine import Engine, Helped
    from sbx_jupyter.service.server import Server


_log = logging.getLogger("sbx_jupyter.service")

_KEEP_SANDBOXES_SIGNALS: Final = frozenset({signal.SIGHUP})
"""Signals that end the engine but leave its sandboxes running, for the next engine to adopt."""


_THREADS: Final = 32
"""For calls that wait for the disk or the kernel. Python's own default is 6 on two processors: a
few sandboxes that load the disk can hold all of them for seconds."""


class SbxEngine(EngineSettings, Application):
    """Runs the engine of this machine and serves it over HTTP."""

    name = "jupyter-sbx-engine"
    description = "Run the sandbox engine in the foreground."

    raise_config_file_errors = True
    _has_log = False

    aliases: ClassVar[Any] = {
        "ip": "SbxEngine.ip",
        "port": "SbxEngine.port",
        "data-dir": "SbxEngine.data_dir",
        "connection-file": "SbxEngine.connection_file",
        "isolation": "SbxEngine.isolation",
        "domain": "SbxEngine.domain",
        "network": "SbxEngine.network",
        "pool-size": "SbxEngine.pool_size",
        "log-level": "Application.log_level",
    }
    flags: ClassVar[Any] = {}

    def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Read the command line and Jupyter's configuration files.

        Raises ``InvalidArgumentError`` for a file that cannot be read: an engine without its
        settings could isolate less than they say.
        """
        from jupyter_core.paths import jupyter_config_path

        self.parse_command_line(list(argv) if argv is not None else None)
        given = copy.deepcopy(self.cli_config)
        try:
            self.load_config_file("jupyter_sbx_config", path=jupyter_config_path())
        except Exception as error:  # the file is a program, which can raise anything
            raise InvalidArgumentError(
                f"the configuration file jupyter_sbx_config fails: {type(error).__name__}: {error}"
            ) from error
        self.update_config(given)

    @classmethod
    def launch(cls, argv: Sequence[str] | None = None) -> int:
        """Run an engine until a signal ends it; returns the exit code."""
        app = cls()
        app.initialize(argv)
        return app.run()

    def run(self) -> int:
        """Serve until a signal and return 0; on failure, print one line on stderr and return 1."""
        try:
            self._make_data_dir()
            listener = Listener.bind(self.ip, self.port, self.data_path)
            try:
                helped = give_up_privileges(self.separation())
                asyncio.run(self._serve(listener, helped))
            finally:
                listener.close()
        except SbxError as error:
            return self._fail(error.message)
        except OSError as error:
            return self._fail(str(error))
        finally:
            logging.shutdown()
        return 0

    def _fail(self, reason: str) -> int:
        if self._has_log:  # without a handler, logging would print the message too
            _log.error("cannot run: %s", reason)
        print(f"jupyter sbx engine: {' '.join(reason.split())}", file=sys.stderr)
        return 1

    async def _serve(self, listener: Listener, helped: Helped | None) -> None:
        from sbx_jupyter.engine.engine import Engine

        stop_signal = self._catch_signals()
        _prepare_process()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="sbx-thread"))
        engine = Engine(self.engine_config(), helped)
        await engine.start()
        keep_sandboxes = True
        try:
            keep_sandboxes = await self._serve_engine(engine, listener, stop_signal)
        finally:
            listener.close()
            await engine.stop(kill_sandboxes=not keep_sandboxes)

    async def _serve_engine(
        self, engine: Engine, listener: Listener, stop_signal: asyncio.Future[signal.Signals]
    ) -> bool:
        """Serve until a signal arrives; returns whether to leave the sandboxes running."""
        from sbx_jupyter.service.audit import Audit
        from sbx_jupyter.service.server import Server

        self._open_log()
        listener.store_port()
        key = credentials.find_api_key(self.data_path, os.environ.get(API_KEY_VARIABLE))
        async with contextlib.AsyncExitStack() as stack:
            audit = Audit(self.data_path / "log") if self.audit else None
            if audit is not None:
                stack.callback(audit.close)
            server = Server(engine, key, self.service_settings(), audit)
            server.start(listener.sockets)
            # After a failure, too: if a socket is closed while the event loop watches it, the next
            # descriptor of its number is not watched, and the engine waits for that without end.
            stack.push_async_callback(server.stop)
            connection = ConnectionFile(
                url=listener.url, api_key=key, pid=os.getpid(), version=server.version
            )
            for path in credentials.connection_files(self.data_path, self.connection_path):
                stack.push_async_callback(credentials.withdraw, engine.fence, path, connection)
                await credentials.publish(engine.fence, path, connection)
            _announce(connection, engine.tier)
            received = await self._wait_for_end(engine, server, stop_signal)
            reason = {"reason": "idle"} if received is None else {"signal": received.name}
            _log.info("stopping", extra={"fields": reason})
        return received in _KEEP_SANDBOXES_SIGNALS

    async def _wait_for_end(
        self, engine: Engine, server: Server, stop_signal: asyncio.Future[signal.Signals]
    ) -> signal.Signals | None:
        """Return the signal that ends the engine, ``None`` when it has been idle for long."""
        if not self.idle_timeout:
            return await stop_signal
        idle = asyncio.create_task(wait_until_idle(engine, server, self.idle_timeout))
        try:
            await asyncio.wait({stop_signal, idle}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        return stop_signal.result() if stop_signal.done() else None

    def _make_data_dir(self) -> None:
        try:
            self.data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"the data directory {self.data_path} cannot be made: {error.strerror}"
            ) from None
        if not os.access(self.data_path, os.W_OK | os.X_OK):
            raise InvalidArgumentError(f"the data directory {self.data_path} is not writable")

    def _open_log(self) -> None:
        self._has_log = True
        root = logging.getLogger()
        root.addHandler(open_log(self.data_path / "log", logging.INFO))
        root.setLevel(logging.INFO)
        if not self.log_requests:
            logging.getLogger("sbx_jupyter.requests").setLevel(logging.WARNING)

    def _catch_signals(self) -> asyncio.Future[signal.Signals]:
        loop = asyncio.get_running_loop()
        stop_signal: asyncio.Future[signal.Signals] = loop.create_future()

        def receive(number: signal.Signals) -> None:
            if not stop_signal.done():
                stop_signal.set_result(number)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, receive, number)
        return stop_signal


EngineApp = SbxEngine
"""The name in Python code; ``c.SbxEngine`` is the name in configuration files."""


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 16 * 1024 * 1024


def _announce(connection: ConnectionFile, tier: str) -> None:
    print(f"sbx-jupyter {connection.version} serves {connection.url} ({tier})", flush=True)
    if tier == "none":
        print("NOT ISOLATED: sandboxes can do all that this user may", flush=True)
        _log.warning("sandboxes are not isolated: the tier is 'none'")
    _log.info("started", extra={"fields": {"url": connection.url, "tier": tier}})


def _prepare_process() -> None:
    """Raise the limit of open files, and make malloc reuse the memory of stream buffers.

    By default, glibc maps and unmaps every chunk above 128 KiB, which halves the throughput of a
    stream.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_M_TRIM_THRESHOLD, 4 * _LARGE)
