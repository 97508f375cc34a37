"""One sandbox, asynchronously: its state on the platform, its files, commands and terminals."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.client.api.runtime import RuntimeClient
from sbx_jupyter.client.api.transport import raise_for_status
from sbx_jupyter.client.cleanup import finish_or_undo, shielded
from sbx_jupyter.client.code.runner import CodeRunner
from sbx_jupyter.client.connection.config import is_loopback
from sbx_jupyter.client.connection.environment import PORT_URL_VARIABLE
from sbx_jupyter.client.files.files import Files
from sbx_jupyter.client.git.git import Git
from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.client.processes.pty import Ptys
from sbx_jupyter.display import reports
from sbx_jupyter.errors import NotFoundError, UnavailableError
from sbx_jupyter.protocol import platform as records
from sbx_jupyter.protocol.access import ACCESS_TOKEN_HEADER
from sbx_jupyter.protocol.runtime import Reading

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.protocol.diff import Diff
    from sbx_jupyter.protocol.disk import SandboxOperation


EXIT_SECONDS: Final = 30.0
"""Seconds for which leaving the context of a sandbox may wait until it is killed."""


class SandboxList(list[records.ListedSandbox]):
    """A list of sandboxes, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return reports.sandboxes(
            (
                (item.metadata or {}).get("name", ""),
                item.sandbox_id,
                item.alias or item.template_id,
                item.state,
                f"{item.end_at:%Y-%m-%d %H:%M}",
            )
            for item in self
        )


class AsyncSandbox(CodeRunner):
    """A sandbox. Leaving its context kills it; ``aclose`` only closes the connections."""

    def __init__(
        self, platform: PlatformClient, record: records.Sandbox, *, owns_platform: bool = False
    ) -> None:
        self.sandbox_id = record.sandbox_id
        self.template_id = record.template_id
        self.record = record
        self.platform = platform
        self._owns_platform = owns_platform
        self._domain = record.domain
        self._runtime = RuntimeClient(
            platform.transport,
            record.sandbox_id,
            access_token=record.envd_access_token,
            traffic_token=record.traffic_access_token,
            domain=record.domain,
        )
        self.files = Files(self._runtime)
        self.commands = Commands(self._runtime)
        self.pty = Ptys(self._runtime)
        self.git = Git(self.commands)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sandbox_id!r})"

    def _repr_html_(self) -> str:
        return reports.sandbox(self.sandbox_id, self.template_id, self.platform.config.api_url)

    @classmethod
    async def create(
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
        platform: PlatformClient | None = None,
    ) -> AsyncSandbox:
        """Start a sandbox that ends, or pauses, ``timeout`` seconds from now.

        ``volumes`` maps mount points to names of volumes. ``memory_mb`` (MiB) takes the place of
        the template's memory, and ``shown_directories`` are seen read-only: environments of the
        engine's machine. Deployments other than the bundled engine ignore both. With neither
        ``config`` nor ``platform`` the deployment is the one that the environment names, else the
        user's shared engine, which is started when none is running. When this call is cancelled,
        the sandbox is ended that was started meanwhile. Raises ``NotFoundError`` for an unknown
        template and ``ResourceExhaustedError`` when there are too many sandboxes.
        """
        request = records.NewSandbox(
            template_id=template,
            timeout=timeout,
            metadata=dict(metadata or {}),
            env_vars=dict(envs or {}),
            allow_internet_access=allow_internet_access,
            network=network,
            auto_pause=on_timeout == "pause",
            auto_resume=records.AutoResume(enabled=True) if auto_resume else None,
            volume_mounts=[
                records.VolumeMount(name=name, path=path) for path, name in (volumes or {}).items()
            ]
            or None,
            memory_mb=memory_mb,
            shown_directories=list(shown_directories) or None,
        )
        async with _platform_for(config, platform) as (client, owned):
            made = await finish_or_undo(
                client.create(request), lambda made: client.kill(made.sandbox_id)
            )
            return cls(client, made, owns_platform=owned)

    @classmethod
    async def connect(
        cls,
        sandbox_id: str,
        *,
        timeout: int | None = None,
        config: ConnectionConfig | None = None,
        platform: PlatformClient | None = None,
    ) -> AsyncSandbox:
        """Connect to an existing sandbox and resume it if it is paused.

        Raises ``NotFoundError``.
        """
        async with _platform_for(config, platform) as (client, owned):
            record = await client.connect(sandbox_id, timeout=timeout)
            return cls(client, record, owns_platform=owned)

    @classmethod
    async def list(
        cls,
        *,
        metadata: dict[str, str] | None = None,
        states: tuple[str, ...] = (),
        config: ConnectionConfig | None = None,
        platform: PlatformClient | None = None,
    ) -> list[records.ListedSandbox]:
        """List the sandboxes of the deployment, newest first."""
        async with _platform_for(config, platform) as (client, owned):
            listed = client.list(metadata=metadata, states=states)
            found = SandboxList([item async for item in listed])
            if owned:
                await client.aclose()
            return found

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        with shielded(EXIT_SECONDS):
            try:
                await self.kill()
            finally:
                await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the sandbox keeps running."""
        if self._owns_platform:
            await self.platform.aclose()

    async def kill(self) -> bool:
        """End the sandbox and all its processes; false when it has ended already."""
        return await self.platform.kill(self.sandbox_id)

    async def pause(self, *, memory: bool = True) -> bool:
        """Save the sandbox and free the machine; false when it is paused already.

        Without ``memory`` only its files are kept, and its processes end.
        """
        return await self.platform.pause(self.sandbox_id, memory=memory)

    async def resume(self, *, timeout: int | None = None) -> None:
        """Resume a paused sandbox; extend the time of a running one."""
        await self.platform.connect(self.sandbox_id, timeout=timeout)

    async def set_timeout(self, timeout: int) -> None:
        """Let the sandbox end ``timeout`` seconds from now."""
        await self.platform.set_timeout(self.sandbox_id, timeout)

    async def get_info(self) -> records.SandboxDetail:
        """Return the platform's record of the sandbox. Raises ``NotFoundError``."""
        return await self.platform.get(self.sandbox_id)

    info = get_info

    async def is_running(self) -> bool:
        """Return whether the sandbox answers; one that was created with ``auto_resume`` resumes."""
        response = await self._runtime.transport.request(
            "GET", self._runtime.url("/health"), headers=self._runtime.headers(), timeout=10
        )
        try:
            await raise_for_status(response)
        except (NotFoundError, UnavailableError):
            return False
        return True

    async def metrics(self) -> Reading:
        """Read how much of the machine the sandbox uses now."""
        response = await self._runtime.transport.request(
            "GET", self._runtime.url("/metrics"), headers=self._runtime.headers()
        )
        await raise_for_status(response)
        return msgspec.json.decode(response.content, type=Reading)

    async def get_metrics(
        self, *, start: int | None = None, end: int | None = None
    ) -> list[records.SandboxMetric]:
        """Return the recorded readings between two unix times in seconds, oldest first."""
        return await self.platform.metrics(self.sandbox_id, start=start, end=end)

    metrics_history = get_metrics

    async def create_snapshot(self, name: str | None = None) -> records.SnapshotInfo:
        """Capture the sandbox; its ``snapshot_id`` is a template to create from."""
        return await self.platform.snapshot(self.sandbox_id, name)

    snapshot = create_snapshot

    async def list_snapshots(self, *, name: str | None = None) -> list[records.SnapshotInfo]:
        """List the snapshots of this sandbox, newest first; only those with a name if given."""
        found = self.platform.snapshots(sandbox_id=self.sandbox_id, name=name)
        return [snapshot async for snapshot in found]

    async def delete_snapshot(self, snapshot_id: str) -> bool:
        """Remove a snapshot; false when there is no such one."""
        return await self.platform.remove_snapshot(snapshot_id)

    async def rename(self, name: str) -> None:
        """Give the sandbox another name in lists; an empty one removes it.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        await self.platform.set_metadata(self.sandbox_id, {"name": name or None})

    async def update_network(self, network: records.NetworkConfig) -> None:
        """Replace the rules for outbound connections; parts that are not given are cleared."""
        await self.platform.set_network(self.sandbox_id, network)

    def download_url(
        self, path: str, *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address of a file; see ``Files.download_url``."""
        return self.files.download_url(path, user=user, expires_in=expires_in)

    def upload_url(
        self, path: str = "", *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address to upload to; see ``Files.upload_url``."""
        return self.files.upload_url(path, user=user, expires_in=expires_in)

    async def diff(self, since: str | None = None) -> Diff:
        """List what the sandbox changed since its template, or since a snapshot.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        return await self.platform.diff(self.sandbox_id, since=since)

    async def operations(self) -> list[SandboxOperation]:
        """List the snapshots, forks and pauses in progress, each with its progress.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        return await self.platform.operations(self.sandbox_id)

    async def cancel_operation(self, operation_id: str) -> bool:
        """Cancel a snapshot or a fork while it copies; false when it has ended.

        Raises ``AbortedError`` when it can no longer be cancelled.
        """
        return await self.platform.cancel_operation(self.sandbox_id, operation_id)

    async def fork(
        self, count: int = 1, *, timeout: int = records.DEFAULT_TIMEOUT
    ) -> list[AsyncSandbox]:
        """Start ``count`` copies of this sandbox as it is now.

        Raises ``UnavailableError`` if one cannot start, and then kills the others, as when this
        call is cancelled.
        """
        asked = self.platform.fork(self.sandbox_id, count=count, timeout=timeout)
        results = await finish_or_undo(asked, self._end_copies)
        copies = [AsyncSandbox(self.platform, r.sandbox) for r in results if r.sandbox is not None]
        failures = [r.error.message for r in results if r.error is not None]
        if failures:
            with shielded(EXIT_SECONDS):
                await self._end_copies(results)
            raise UnavailableError(f"{len(failures)} of {count} copies failed: {failures[0]}")
        return copies

    async def _end_copies(self, made: list[records.ForkResult]) -> None:
        for copy in made:
            if copy.sandbox is not None:
                await self.platform.kill(copy.sandbox.sandbox_id)

    async def isolation(self) -> dict[str, Any] | None:
        """Return the engine's isolation report; ``None`` where the deployment has none.

        ``tier`` is the one in use, which settings may make weaker than what the machine gives.
        """
        described = await self.platform.engine_info()
        if described is None or "isolation" not in described:
            return described
        report = described["isolation"]
        return {**report, "tier": described.get("tier", report["tier"])}

    def port_address(self, port: int) -> tuple[str, dict[str, str]]:
        """Return the address under which this process reaches a port, and the headers to send."""
        headers = self._runtime.headers(port=port)
        # The sandbox's own programs get these headers, and this one is for its runtime only.
        headers.pop(ACCESS_TOKEN_HEADER, None)
        return self._runtime.url("", port), headers

    def get_host(self, port: int) -> str:
        """Return the host name under which one port of the sandbox is served."""
        return self.platform.config.port_host(self.sandbox_id, port, self._domain)

    def get_url(self, port: int) -> str:
        """Return the address of one port of the sandbox for the user's browser.

        In a kernel of a Jupyter server with the extension it leads through that server, and needs
        its login; it is only a path where the server does not know its public host name. Elsewhere
        it is ``get_host`` with a scheme.
        """
        if (ports := os.environ.get(PORT_URL_VARIABLE)) is not None:
            return f"{ports}{self.sandbox_id}/{port}/"
        host = self.get_host(port)
        return f"{'http' if is_loopback(host.partition(':')[0]) else 'https'}://{host}/"


@contextlib.asynccontextmanager
async def _platform_for(
    config: ConnectionConfig | None, platform: PlatformClient | None
) -> AsyncGenerator[tuple[PlatformClient, bool]]:
    """Yield the client to use and whether it is a new one, which is closed if the block fails."""
    if platform is not None:
        yield platform, False
        return
    own = PlatformClient(config) if config is not None else await PlatformClient.default()
    try:
        yield own, True
    except BaseException:
        with shielded():
            await own.aclose()
        raise
