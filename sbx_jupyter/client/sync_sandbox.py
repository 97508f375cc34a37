"""``AsyncSandbox`` for blocking code: scripts, notebooks and magics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sbx_jupyter.client.blocking import Portal, blocking
from sbx_jupyter.client.code.sync_runner import SyncCodeRunner
from sbx_jupyter.client.files.sync_files import SyncFiles
from sbx_jupyter.client.git.sync_git import SyncGit
from sbx_jupyter.client.processes.sync_commands import SyncCommands, SyncPtys
from sbx_jupyter.client.sandbox import AsyncSandbox
from sbx_jupyter.display import reports
from sbx_jupyter.protocol import platform as records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbx_jupyter.client.connection.config import ConnectionConfig

    Metrics = list[records.SandboxMetric]
    Copies = list["Sandbox"]

T = TypeVar("T")


class Sandbox(SyncCodeRunner):
    """A sandbox whose methods block until they are done. Leaving its context kills it.

    Its methods do and raise the same as those of ``AsyncSandbox``.
    """

    def __init__(self, portal: Portal, config: ConnectionConfig, record: records.Sandbox) -> None:
        self.sandbox_id = record.sandbox_id
        self.template_id = record.template_id
        self._config = config
        self._record = record
        self._portal = portal
        self._inner = AsyncSandbox(portal.platform(config), record)
        self._pid = os.getpid()
        self.files = SyncFiles(lambda: (self._here(), self._inner.files))
        self.commands = SyncCommands(lambda: (self._here(), self._inner.commands))
        self.pty = SyncPtys(lambda: (self._here(), self._inner.pty))
        self.git = SyncGit(lambda: (self._here(), self._inner.git))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sandbox_id!r})"

    def _repr_html_(self) -> str:
        return reports.sandbox(self.sandbox_id, self.template_id, self._config.api_url)

    @classmethod
    def create(
        cls,
        template: str = "base",
        *,
        timeout: int = records.DEFAULT_TIMEOUT,
        metadata: Mapping[str, str] | None = None,
        envs: Mapping[str, str] | None = None,
        allow_internet_access: bool | None = None,
        network: records.NetworkConfig | None = None,
        on_timeout: Literal["kill", "pause"] = "kill",
        auto_resume: bool = False,
        volumes: Mapping[str, str] | None = None,
        memory_mb: int | None = None,
        shown_directories: Sequence[str] = (),
        config: ConnectionConfig | None = None,
    ) -> Sandbox:
        """Start a sandbox that ends, or pauses, ``timeout`` seconds from now.

        ``volumes`` maps mount points to names of volumes. Without ``config`` the deployment is the
        one that the environment names, else the user's shared engine, which is started when none
        is running. Raises ``NotFoundError`` for an unknown template and ``ResourceExhaustedError``
        when there are too many sandboxes.
        """
        portal = Portal.current()
        platform = portal.platform(config)
        creating = AsyncSandbox.create(
            template,
            timeout=timeout,
            metadata=metadata,
            envs=envs,
            allow_internet_access=allow_internet_access,
            network=network,
            on_timeout=on_timeout,
            auto_resume=auto_resume,
            volumes=volumes,
            memory_mb=memory_mb,
            shown_directories=shown_directories,
            platform=platform,
        )
        return cls(portal, platform.config, portal.call(creating).record)

    @classmethod
    def connect(
        cls, sandbox_id: str, *, timeout: int | None = None, config: ConnectionConfig | None = None
    ) -> Sandbox:
        """Connect to an existing sandbox and resume it if it is paused.

        Raises ``NotFoundError``.
        """
        portal = Portal.current()
        platform = portal.platform(config)
        return cls(
            portal, platform.config, portal.call(platform.connect(sandbox_id, timeout=timeout))
        )

    @classmethod
    def of(cls, sandbox: AsyncSandbox) -> Sandbox:
        """Return a blocking object for the same sandbox, with connections of its own."""
        config = sandbox.platform.config
        portal = Portal.current()
        portal.platform(config)
        return cls(portal, config, sandbox.record)

    @classmethod
    def list(
        cls,
        *,
        metadata: dict[str, str] | None = None,
        states: tuple[str, ...] = (),
        config: ConnectionConfig | None = None,
    ) -> list[records.ListedSandbox]:
        """List the sandboxes of the deployment, newest first."""
        portal = Portal.current()
        platform = portal.platform(config)
        return portal.call(AsyncSandbox.list(metadata=metadata, states=states, platform=platform))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def on_portal(self) -> AsyncSandbox:
        """The same sandbox as an ``AsyncSandbox`` for coroutines that run on the portal."""
        self._here()
        return self._inner

    @property
    def isolation(self) -> dict[str, Any] | None:
        """The engine's isolation report; ``None`` where the deployment has none."""
        return self._here().call(self._inner.isolation())

    kill = blocking(AsyncSandbox.kill)
    pause = blocking(AsyncSandbox.pause)
    resume = blocking(AsyncSandbox.resume)
    set_timeout = blocking(AsyncSandbox.set_timeout)
    get_info = blocking(AsyncSandbox.get_info)
    info = get_info
    is_running = blocking(AsyncSandbox.is_running)
    metrics = blocking(AsyncSandbox.metrics)
    get_metrics = blocking(AsyncSandbox.get_metrics)
    metrics_history = get_metrics
    create_snapshot = blocking(AsyncSandbox.create_snapshot)
    snapshot = create_snapshot
    list_snapshots = blocking(AsyncSandbox.list_snapshots)
    delete_snapshot = blocking(AsyncSandbox.delete_snapshot)
    rename = blocking(AsyncSandbox.rename)
    update_network = blocking(AsyncSandbox.update_network)
    diff = blocking(AsyncSandbox.diff)
    operations = blocking(AsyncSandbox.operations)
    cancel_operation = blocking(AsyncSandbox.cancel_operation)

    def fork(self, count: int = 1, *, timeout: int = records.DEFAULT_TIMEOUT) -> Copies:
        """Start ``count`` copies of this sandbox as it is now: its files, not its processes.

        Raises ``UnavailableError`` if one cannot start, and then kills the others.
        """
        copies = self._here().call(self._inner.fork(count, timeout=timeout))
        return [Sandbox(self._portal, self._config, copy.record) for copy in copies]

    def download_url(
        self, path: str, *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address of a file; see ``Files.download_url``."""
        return self._inner.download_url(path, user=user, expires_in=expires_in)

    def upload_url(
        self, path: str = "", *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address to upload to; see ``Files.upload_url``."""
        return self._inner.upload_url(path, user=user, expires_in=expires_in)

    def get_host(self, port: int) -> str:
        """Return the host name under which one port of the sandbox is served."""
        return self._inner.get_host(port)

    def get_url(self, port: int) -> str:
        """Return the address of one port for the user's browser; see ``AsyncSandbox.get_url``."""
        return self._inner.get_url(port)

    def _connected(self) -> tuple[Portal, AsyncSandbox]:
        return self._here(), self._inner

    def _here(self) -> Portal:
        """Return this process's portal; a forked child gets its own portal and connections."""
        if self._pid != os.getpid():
            self._portal = Portal.current()
            self._inner = AsyncSandbox(self._portal.platform(self._config), self._record)
            self._pid = os.getpid()
        return self._portal
