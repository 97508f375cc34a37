"""The client of the platform API: sandboxes, their metrics, logs and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from sbx_jupyter.client.api.transport import Transport, raise_for_status
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.errors import AbortedError, AlreadyExistsError, NotFoundError, UnavailableError
from sbx_jupyter.protocol import disk, owners
from sbx_jupyter.protocol import platform as records
from sbx_jupyter.protocol.access import API_KEY_HEADER
from sbx_jupyter.protocol.diff import Diff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    import httpx

    from sbx_jupyter.client.api.transport import Params

T = TypeVar("T")

PAGE_SIZE: Final = 100
START_TIMEOUT: Final = 120.0
"""Seconds; a create or resume may have to unpack a template first."""

COPY_TIMEOUT: Final = 3600.0
"""Seconds; a snapshot or fork may copy many files. ``operations`` shows its progress."""

DISK_TIMEOUT: Final = 600.0
"""Seconds; the engine may have to measure many files."""


class PlatformClient:
    """The calls of the platform API for sandboxes (interface 1).

    Each call raises the error that the deployment answers with, and ``UnavailableError`` or
    ``DeadlineExceededError`` without an answer. Use it as an asynchronous context manager, or call
    ``aclose``.
    """

    def __init__(self, config: ConnectionConfig, transport: Transport | None = None) -> None:
        self.config = config
        self.transport = transport or Transport(config)

    @classmethod
    async def default(cls) -> PlatformClient:
        """Connect to the deployment that the environment names, else the user's shared engine."""
        return cls(await ConnectionConfig.default())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.transport.aclose()

    async def create(
        self, request: records.NewSandbox, *, idempotency_key: str | None = None
    ) -> records.Sandbox:
        """Start a sandbox; raises ``NotFoundError`` for an unknown template."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        response = await self._send(
            "POST", "/v2/sandboxes", body=request, headers=headers, timeout=START_TIMEOUT
        )
        return decoded(response, records.Sandbox)

    async def get(self, sandbox_id: str) -> records.SandboxDetail:
        """Describe a sandbox; raises ``NotFoundError``."""
        response = await self._send("GET", f"/sandboxes/{segment(sandbox_id)}")
        return decoded(response, records.SandboxDetail)

    async def list(
        self,
        *,
        metadata: dict[str, str] | None = None,
        states: tuple[str, ...] = (),
        template: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> AsyncIterator[records.ListedSandbox]:
        """Yield the sandboxes that match, newest first, fetched page by page.

        A sandbox matches if it has all pairs of ``metadata``, one of the ``states`` and the
        ``template``; arguments that are not given match all.
        """
        params: dict[str, str] = {"limit": str(page_size)}
        if states:
            params["state"] = ",".join(states)
        if metadata:
            pairs = urlencode({quote(k): quote(v) for k, v in metadata.items()}, safe="%")
            params["metadata"] = quote(pairs)
        if template is not None:
            params["template"] = template
        async for response in self._pages("/v2/sandboxes", params):
            for sandbox in decoded(response, list[records.ListedSandbox]):
                yield sandbox

    async def kill(self, sandbox_id: str) -> bool:
        """End a sandbox; false when there is no such sandbox."""
        return await self._done("DELETE", f"/sandboxes/{segment(sandbox_id)}")

    async def connect(
        self, sandbox_id: str, *, timeout: int | None = None, memory: bool | None = None
    ) -> records.Sandbox:
        """Return the credentials of a sandbox; resume it if it is paused.

        ``timeout`` is in seconds (default: the deployment's) and never shortens the time left.
        Without ``memory`` a paused sandbox boots anew. Raises ``NotFoundError``.
        """
        response = await self._send(
            "POST",
            f"/v2/sandboxes/{segment(sandbox_id)}/connect",
            body=records.ConnectSandbox(timeout=timeout, memory=memory),
            timeout=START_TIMEOUT,
        )
        return decoded(response, records.Sandbox)

    async def pause(self, sandbox_id: str, *, memory: bool = True) -> bool:
        """Pause a sandbox; false when it is paused already.

        Without ``memory`` only its files are kept. Raises ``NotFoundError``.
        """
        path = f"/sandboxes/{segment(sandbox_id)}/pause"
        body = msgspec.json.encode({} if memory else {"memory": False})
        try:
            await self._send("POST", path, body=msgspec.Raw(body), timeout=COPY_TIMEOUT)
        except AbortedError as error:
            if "already paused" in error.message:
                return False
            raise
        return True

    async def set_timeout(self, sandbox_id: str, timeout: int) -> None:
        """Let the sandbox end ``timeout`` seconds from now, earlier or later than before."""
        path = f"/sandboxes/{segment(sandbox_id)}/timeout"
        await self._send("POST", path, body=records.TimeoutRequest(timeout=timeout))

    async def refresh(self, sandbox_id: str, duration: int) -> None:
        """Keep the sandbox for at least ``duration`` seconds more."""
        path = f"/sandboxes/{segment(sandbox_id)}/refreshes"
        await self._send("POST", path, body=records.RefreshRequest(duration=duration))

    async def set_network(self, sandbox_id: str, network: records.NetworkConfig) -> None:
        """Replace the whole egress configuration."""
        await self._send("PUT", f"/sandboxes/{segment(sandbox_id)}/network", body=network)

    async def set_metadata(
        self, sandbox_id: str, metadata: dict[str, str | None]
    ) -> records.ListedSandbox:
        """Change metadata entries of a sandbox; the value ``None`` removes one.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        response = await self._send(
            "PATCH",
            f"/engine/sandboxes/{segment(sandbox_id)}",
            body=records.MetadataRequest(metadata=metadata),
        )
        return decoded(response, records.ListedSandbox)

    async def fork(
        self, sandbox_id: str, *, count: int = 1, timeout: int = records.DEFAULT_TIMEOUT
    ) -> list[records.ForkResult]:
        """Start ``count`` copies of a running sandbox; each result is a sandbox or an error."""
        response = await self._send(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/fork",
            body=msgspec.Raw(msgspec.json.encode({"count": count, "timeout": timeout})),
            timeout=COPY_TIMEOUT,
        )
        return decoded(response, list[records.ForkResult])

    async def metrics(
        self, sandbox_id: str, *, start: int | None = None, end: int | None = None
    ) -> list[records.SandboxMetric]:
        """Return the recorded readings between two Unix times in seconds, oldest first."""
        given = {"start": start, "end": end}
        params: Params = {name: str(time) for name, time in given.items() if time is not None}
        path = f"/sandboxes/{segment(sandbox_id)}/metrics"
        response = await self._send("GET", path, params=params)
        return decoded(response, list[records.SandboxMetric])

    async def logs(
        self, sandbox_id: str, *, limit: int = 1000, direction: str = "forward"
    ) -> list[records.SandboxLogEntry]:
        """Return the sandbox's log, oldest first unless ``direction`` is ``backward``."""
        response = await self._send(
            "GET",
            f"/v2/sandboxes/{segment(sandbox_id)}/logs",
            params={"limit": str(limit), "direction": direction},
        )
        return decoded(response, _Logs).logs

    async def snapshot(self, sandbox_id: str, name: str | None = None) -> records.SnapshotInfo:
        """Capture a running sandbox; the snapshot's id is a template to create from."""
        response = await self._send(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/snapshots",
            body=records.SnapshotRequest(name=name),
            timeout=COPY_TIMEOUT,
        )
        return decoded(response, records.SnapshotInfo)

    async def snapshots(
        self, *, sandbox_id: str | None = None, name: str | None = None
    ) -> AsyncIterator[records.SnapshotInfo]:
        """Yield the snapshots, newest first; only those of a sandbox or with a name if given."""
        params = {"limit": str(PAGE_SIZE)}
        if sandbox_id is not None:
            params["sandboxID"] = sandbox_id
        if name is not None:
            params["name"] = name
        async for response in self._pages("/snapshots", params):
            for snapshot in decoded(response, list[records.SnapshotInfo]):
                yield snapshot

    async def remove_snapshot(self, snapshot_id: str) -> bool:
        """Remove a snapshot or template; false when there is no such one."""
        return await self._done("DELETE", f"/templates/{segment(snapshot_id)}")

    async def templates(self) -> list[dict[str, Any]]:
        """List the templates of the deployment, as it describes them (interface 1.5)."""
        return decoded(await self._send("GET", "/templates"), list[dict[str, Any]])

    async def diff(self, sandbox_id: str, *, since: str | None = None) -> Diff:
        """List what a sandbox changed since its template, or since a snapshot.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        response = await self._send(
            "GET",
            f"/engine/sandboxes/{segment(sandbox_id)}/diff",
            params=None if since is None else {"since": since},
            timeout=DISK_TIMEOUT,
        )
        return decoded(response, Diff)

    async def earlier_file(self, sandbox_id: str, path: str, *, since: str | None = None) -> bytes:
        """Read a file as it was before the sandbox changed or deleted it.

        Raises ``NotFoundError`` where no layer has it, ``ResourceExhaustedError`` if it is large.
        """
        response = await self._send(
            "GET",
            f"/engine/sandboxes/{segment(sandbox_id)}/diff/before",
            params={"path": path} | ({} if since is None else {"since": since}),
            timeout=DISK_TIMEOUT,
        )
        return response.content

    async def latest_metrics(
        self, sandbox_ids: Collection[str]
    ) -> dict[str, records.SandboxMetric]:
        """The newest reading of each of at most 100 sandboxes, those that have one (S16)."""
        ids = {"sandbox_ids": ",".join(sandbox_ids)}
        response = await self._send("GET", "/sandboxes/metrics", params=ids)
        return decoded(response, dict[str, dict[str, records.SandboxMetric]]).get("sandboxes", {})

    async def disk_use(self, *, max_age: int = 30) -> disk.DiskUse:
        """Report the engine's disk use, measured at most ``max_age`` seconds ago.

        Raises ``NotFoundError`` for deployments other than the bundled engine.
        """
        response = await self._send(
            "GET", "/engine/disk", params={"maxAge": str(max_age)}, timeout=DISK_TIMEOUT
        )
        return decoded(response, disk.DiskUse)

    async def prune(
        self, *, kinds: Sequence[disk.PruneKind] = (), dry_run: bool = False
    ) -> disk.PruneAnswer:
        """Remove cached files that nothing uses, of the given kinds (none: all).

        ``dry_run`` only reports what would be freed. Raises ``NotFoundError`` for deployments other
        than the bundled engine.
        """
        request = disk.PruneRequest(dry_run=dry_run)
        if kinds:
            request = disk.PruneRequest(dry_run=dry_run, kinds=tuple(kinds))
        response = await self._send("POST", "/engine/prune", body=request, timeout=DISK_TIMEOUT)
        return decoded(response, disk.PruneAnswer)

    async def operations(self, sandbox_id: str) -> list[disk.SandboxOperation]:
        """List the snapshots, forks and pauses of a sandbox in progress.

        Raises ``NotFoundError``, also for deployments other than the bundled engine.
        """
        path = f"/engine/sandboxes/{segment(sandbox_id)}/operations"
        return decoded(await self._send("GET", path), list[disk.SandboxOperation])

    async def cancel_operation(self, sandbox_id: str, operation_id: str) -> bool:
        """Cancel a snapshot or a fork while it copies; false when it has ended.

        Raises ``AbortedError`` when it can no longer be cancelled.
        """
        return await self._done(
            "DELETE",
            f"/engine/sandboxes/{segment(sandbox_id)}/operations/{segment(operation_id)}",
        )

    async def owner_keys(self) -> list[owners.OwnerKey]:
        """List the keys of owners; raises ``NotFoundError`` for other deployments."""
        return decoded(await self._send("GET", "/engine/keys"), list[owners.OwnerKey])

    async def create_owner_key(self, owner: str, *, sees_all: bool = False) -> owners.MadeOwnerKey:
        """Make a key for an owner on a shared engine; raises ``InvalidArgumentError``."""
        body = owners.NewOwnerKey(owner=owner, sees_all=sees_all)
        return decoded(await self._send("POST", "/engine/keys", body=body), owners.MadeOwnerKey)

    async def remove_owner_key(self, key_id: str) -> bool:
        """Revoke a key; false when there is no such key."""
        return await self._done("DELETE", f"/engine/keys/{segment(key_id)}")

    async def default_templates(self) -> list[dict[str, Any]]:
        """List the stock templates of the deployment (T14); empty where it has no such route."""
        try:
            return decoded(await self._send("GET", "/default-templates"), list[dict[str, Any]])
        except NotFoundError:
            return []

    async def engine_info(self) -> dict[str, Any] | None:
        """Return the answer of ``GET /engine/info``; ``None`` where there is no such route."""
        try:
            return decoded(await self._send("GET", "/engine/info"), dict[str, Any])
        except NotFoundError:
            return None

    async def _pages(self, path: str, params: dict[str, str]) -> AsyncIterator[httpx.Response]:
        token: str | None = None
        while True:
            more = {} if token is None else {"nextToken": token}
            response = await self._send("GET", path, params=params | more)
            yield response
            if not (token := response.headers.get("X-Next-Token")):
                return

    async def _done(self, method: str, path: str) -> bool:
        try:
            await self._send(method, path)
        except NotFoundError:
            return False
        return True

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: msgspec.Struct | msgspec.Raw | None = None,
        params: Params = None,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        all_headers = {API_KEY_HEADER: self.config.api_key} | (headers or {})
        content: bytes | None = None
        if body is not None:
            content = msgspec.json.encode(body)
            all_headers["Content-Type"] = "application/json"
        response = await self.transport.request(
            method,
            self.config.api_url.rstrip("/") + path,
            headers=all_headers,
            params=params,
            content=content,
            timeout=timeout,
        )
        try:
            return await raise_for_status(response)
        except AlreadyExistsError as error:
            # The platform API answers every conflict of states with 409 (interface 1.0.4).
            raise AbortedError(error.message) from error


class _Logs(msgspec.Struct, kw_only=True, frozen=True):
    logs: list[records.SandboxLogEntry]


def segment(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")


def decoded(response: httpx.Response, kind: type[T]) -> T:
    """The body of an answer; raises ``UnavailableError`` for one of another kind."""
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise UnavailableError(
            f"{response.request.url.path} answered with something else than expected: {error}"
        ) from error
