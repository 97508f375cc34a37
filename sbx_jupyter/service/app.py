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
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, default, validate
from traitlets.config import Application

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol.locations import (
    API_KEY_VARIABLE,
    ConnectionFile,
    connection_file_of,
    default_data_dir,
)
from sbx_jupyter.service import credentials
from sbx_jupyter.service.addresses import Listener
from sbx_jupyter.service.idleness import wait_until_idle
from sbx_jupyter.service.log_format import open_log
from sbx_jupyter.service.separation import Separation, give_up_privileges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.engine.engine import Engine, Helped
    from sbx_jupyter.service.server import Server


_log = logging.getLogger("sbx_jupyter.service")

DEFAULT_IDLE_TIMEOUT: Final = 600.0
"""Seconds, for engines that a client started."""

_KEEP_SANDBOXES_SIGNALS: Final = frozenset({signal.SIGHUP})
"""Signals that end the engine but leave its sandboxes running, for the next engine to adopt."""


class SbxEngine(Application):
    """Runs the engine of this machine and serves it over HTTP."""

    name = "jupyter-sbx-engine"
    description = "Run the sandbox engine in the foreground."

    ip = Unicode("127.0.0.1", help="The address to listen on.").tag(config=True)
    port = Int(
        0,
        min=0,
        max=65535,
        help="The port to listen on. 0 uses the port of the last start if it is free, else any.",
    ).tag(config=True)
    data_dir = Unicode(
        help="The directory for the engine's database, sandboxes, templates and logs."
    ).tag(config=True)
    connection_file = Unicode(
        help="The file for address and API key, written when the engine is ready."
    ).tag(config=True)
    isolation = Unicode(
        "auto",
        help="The isolation tier: namespaces, landlock or none; auto uses the strongest of the"
        " first two that works on this machine.",
    ).tag(config=True)
    domain = Unicode(
        "",
        help="The domain of sandbox host names that clients get; for engines behind a TLS"
        " terminator.",
    ).tag(config=True)
    allow_origin = Unicode("*", help="The Access-Control-Allow-Origin of answers.").tag(config=True)
    pool_size = Int(
        4, min=0, max=64, help="How many sandboxes to start ahead of requests for them."
    ).tag(config=True)
    warm_interpreter = Bool(
        True,
        help="Start a code interpreter in each sandbox of code-interpreter-v1 before the first"
        " request for it.",
    ).tag(config=True)
    max_sandboxes = Int(100, min=1, help="How many sandboxes may run at once.").tag(config=True)
    max_timeout = Int(86400, min=1, help="The longest life of a sandbox in seconds.").tag(
        config=True
    )
    max_connections_per_sandbox = Int(
        512, min=1, help="How many requests to the ports of one sandbox may run at once."
    ).tag(config=True)
    default_memory_mb = Int(1024, min=64, help="Memory of a sandbox in MiB.").tag(config=True)
    default_cpu_count = Int(2, min=1, help="Processors of a sandbox.").tag(config=True)
    default_disk_mb = Int(10240, min=16, help="Disk space of a sandbox in MiB.").tag(config=True)
    volume_size_mb = Int(
        10240, min=0, help="Disk space of a volume in MiB, when it is made; 0 means no limit."
    ).tag(config=True)
    cpu_weight = Int(
        100,
        min=1,
        max=10000,
        help="The weight of all sandboxes together when the machine has too little processor time,"
        " where control groups share it out. Other groups, such as a service of systemd, have 100.",
    ).tag(config=True)
    default_processes = Int(1024, min=16, help="Processes in a sandbox.").tag(config=True)
    default_open_files = Int(
        65536, min=64, help="Open files per process; see docs/architecture.md."
    ).tag(config=True)
    network = Enum(
        ("proxy", "full"),
        "proxy",
        help="The network of sandboxes: proxy gives them a proxy for HTTP and SOCKS, full gives"
        " them TCP and UDP as well (needs slirp4netns).",
    ).tag(config=True)
    host_ids = Unicode(
        "524288-1879048191",
        help="The ids of the host for sandboxes, first to last, with an engine of root: each has a"
        " block of 65536 to itself. Blocks with ids of users, of groups or of /etc/subuid and"
        " /etc/subgid are left out.",
    ).tag(config=True)
    egress_exceptions = List(
        Unicode(),
        help="Non-public networks (CIDR) that sandboxes may reach, such as a package mirror's.",
    ).tag(config=True)
    max_builds = Int(20, min=1, help="How many template builds may run or wait in the queue.").tag(
        config=True
    )
    parallel_builds = Int(2, min=1, help="How many template builds run at once.").tag(config=True)
    build_step_timeout = Float(
        3600.0, min=1, help="Seconds that one step of a template build may take."
    ).tag(config=True)
    max_cached_steps = Int(500, min=0, help="How many build steps are kept in the cache.").tag(
        config=True
    )
    max_step_cache_gb = Float(
        20.0, min=0, help="Disk space for layers that only the cache of build steps uses, in GiB."
    ).tag(config=True)
    metrics_interval = Float(
        5.0, min=0.5, help="Seconds between two readings of a sandbox's metrics."
    ).tag(config=True)
    on_demand = Bool(False, help="Whether a client started this engine because it needed one.").tag(
        config=True
    )
    idle_timeout = Float(
        min=0,
        help="Seconds without a sandbox, a client and a build after which the engine ends; 0:"
        " never. Default: 600 if a client started it, else 0.",
    ).tag(config=True)
    user_id = Int(
        0,
        min=-1,
        help="The user and group id that serves clients when root starts the engine: -1 for one"
        " that is derived from the data directory, 0 to stay root.",
    ).tag(config=True)
    log_requests = Bool(True, help="Write a line for each request to the log.").tag(config=True)
    features = List(
        Unicode(), help="Feature names that GET /engine/info lists, besides the engine's own."
    ).tag(config=True)

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

    @default("idle_timeout")
    def _default_idle_timeout(self) -> float:
        return DEFAULT_IDLE_TIMEOUT if self.on_demand else 0.0

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(default_data_dir())

    @default("connection_file")
    def _default_connection_file(self) -> str:
        return str(connection_file_of(self.data_path))

    @validate("isolation")
    def _check_isolation(self, proposal: Any) -> str:
        choices = ("auto", "namespaces", "landlock", "none")
        if proposal["value"] not in choices:
            raise TraitError(f"isolation must be one of {', '.join(choices)}")
        return proposal["value"]

    @validate("host_ids")
    def _check_host_ids(self, proposal: Any) -> str:
        from sbx_jupyter.isolation.ids.blocks import IdRange

        try:
            IdRange.parse(proposal["value"])
        except ValueError as error:
            raise TraitError(f"host_ids: {error}") from error
        return proposal["value"]

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser().absolute()

    @property
    def connection_path(self) -> Path:
        return Path(self.connection_file).expanduser().absolute()

    def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Read the command line and Jupyter's configuration files."""
        from jupyter_core.paths import jupyter_config_path

        self.parse_command_line(list(argv) if argv is not None else None)
        given = copy.deepcopy(self.cli_config)
        self.load_config_file("jupyter_sbx_config", path=jupyter_config_path())
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

    def separation(self) -> Separation:
        """What decides whether the engine serves as a user of its own."""
        return Separation(
            data_dir=self.data_path,
            connection_file=self.connection_path,
            isolation=self.isolation,
            network=self.network,
            user_id=self.user_id,
            cpu_weight=self.cpu_weight,
            host_ids=self.host_ids,
        )

    async def _serve(self, listener: Listener, helped: Helped | None) -> None:
        from sbx_jupyter.engine.engine import Engine

        stop_signal = self._catch_signals()
        _prepare_process()
        engine = Engine(self._engine_config(), helped)
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
        from sbx_jupyter.service.server import Server

        self._open_log()
        listener.store_port()
        key = credentials.find_api_key(self.data_path, os.environ.get(API_KEY_VARIABLE))
        server = Server(engine, key, self.settings())
        server.start(listener.sockets)
        connection = ConnectionFile(
            url=listener.url, api_key=key, pid=os.getpid(), version=server.version
        )
        path = self.connection_path
        await credentials.publish(engine.fence, path, connection)
        print(f"sbx-jupyter {server.version} serves {listener.url} ({engine.tier})", flush=True)
        _log.info("started", extra={"fields": {"url": listener.url, "tier": engine.tier}})
        try:
            received = await self._wait_for_end(engine, server, stop_signal)
        finally:
            await credentials.withdraw(engine.fence, path, connection)
        reason = {"reason": "idle"} if received is None else {"signal": received.name}
        _log.info("stopping", extra={"fields": reason})
        keep_sandboxes = received in _KEEP_SANDBOXES_SIGNALS
        await server.stop()
        return keep_sandboxes

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

    def settings(self) -> Any:
        """The HTTP service's settings, a ``ServiceSettings``."""
        from sbx_jupyter.service.context import ServiceSettings

        return ServiceSettings(
            version=_version(),
            domain=self.domain or None,
            allow_origin=self.allow_origin,
            max_connections_per_sandbox=self.max_connections_per_sandbox,
            features=tuple(self.features),
        )

    def _engine_config(self) -> Any:
        from sbx_jupyter.engine.context import EngineConfig
        from sbx_jupyter.isolation.fence import Limits
        from sbx_jupyter.isolation.ids.blocks import IdRange

        return EngineConfig(
            data_dir=self.data_path,
            isolation=self.isolation,
            pool_size=self.pool_size,
            max_sandboxes=self.max_sandboxes,
            max_timeout=self.max_timeout,
            default_limits=Limits(
                memory_mb=self.default_memory_mb,
                cpu_count=self.default_cpu_count,
                processes=self.default_processes,
                disk_mb=self.default_disk_mb,
                open_files=self.default_open_files,
            ),
            cpu_weight=self.cpu_weight,
            volume_size_mb=self.volume_size_mb,
            warm_interpreter=self.warm_interpreter,
            metrics_interval=self.metrics_interval,
            domain=self.domain or None,
            network=self.network,
            host_ids=IdRange.parse(self.host_ids),
            egress_exceptions=tuple(self.egress_exceptions),
            max_builds=self.max_builds,
            parallel_builds=self.parallel_builds,
            build_step_timeout=self.build_step_timeout,
            max_cached_steps=self.max_cached_steps,
            max_step_cache_bytes=int(self.max_step_cache_gb * 1024**3),
        )

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


def _version() -> str:
    from sbx_jupyter import __version__

    return __version__


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 16 * 1024 * 1024


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
