"""Connects the server process to a deployment, and starts the bundled engine when needed."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from sbx_jupyter.client import bundled
from sbx_jupyter.client.config import ConnectionConfig
from sbx_jupyter.client.platform import PlatformClient
from sbx_jupyter.client.runtime import RuntimeClient
from sbx_jupyter.client.transport import Transport
from sbx_jupyter.errors import (
    NotFoundError,
    SbxError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.locations import connection_file_of, default_data_dir
from sbx_jupyter.protocol.platform import ListedSandbox, NewSandbox, SandboxMetric

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from logging import Logger

    from sbx_jupyter.protocol.locations import ConnectionFile

T = TypeVar("T")

RETRY_START_AFTER: Final = 5.0
"""Seconds between a failed start of the engine and the next try."""

MAX_KNOWN_SANDBOXES: Final = 512
MAX_LISTED_SANDBOXES: Final = 1000


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The deployment to use; without ``api_url``, the bundled engine of ``data_dir``.

    ``engine_timeout`` is in seconds.
    """

    api_url: str = ""
    sandbox_url: str = ""
    domain: str = ""
    api_key: str = field(default="", repr=False)
    ca_file: str = ""
    data_dir: str = ""
    auto_start: bool = True
    engine_timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class SandboxDefaults:
    """The defaults for a new sandbox; ``timeout`` is in seconds."""

    template: str = "base"
    timeout: int = 300
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


class Connections:
    """Holds the transport to the deployment and the tokens of its sandboxes.

    Front ends never get keys or tokens: every record for them is a ``ListedSandbox``.
    """

    def __init__(
        self, settings: ConnectionSettings, defaults: SandboxDefaults, *, log: Logger
    ) -> None:
        self._settings = settings
        self.defaults = defaults
        self._log = log
        self._state = "remote" if settings.api_url else "stopped"
        self._failure: SbxError | None = None
        self._failed_at = 0.0
        self._transport: Transport | None = None
        self._must_recheck = False
        self._starting: asyncio.Task[Transport] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._isolation: dict[str, Any] | None = None
        self._runtimes: OrderedDict[str, RuntimeClient] = OrderedDict()

    def describe(self) -> dict[str, Any]:
        """The answer of ``GET sbx/api/info``; does not wait for the engine."""
        from sbx_jupyter import __version__

        engine: dict[str, str] = {"state": self._state}
        if self._state == "failed" and self._failure is not None:
            engine["message"] = self._failure.message
        configured = urlsplit(self._settings.api_url)
        return {
            "version": __version__,
            "engine": engine,
            "isolation": self._isolation,
            "url_kind": "configured" if self._settings.api_url else "bundled",
            # Without a user name and password, which the address may contain.
            "host": configured.netloc.rpartition("@")[2] or None,
        }

    async def platform(self) -> PlatformClient:
        """Return a platform client; starts the bundled engine if needed, as ``transport`` does."""
        transport = await self.transport()
        return PlatformClient(transport.config, transport)

    async def transport(self) -> Transport:
        """Return the transport to the deployment; finds or starts the bundled engine first.

        Raises ``UnavailableError`` when no engine runs and none can be started,
        ``UnauthenticatedError`` when a deployment is configured without a key.
        """
        if self._transport is not None and not self._must_recheck:
            return self._transport
        if self._starting is None:
            self._starting = asyncio.create_task(self._connect())
            self._starting.add_done_callback(self._finish_start)
        return await asyncio.shield(self._starting)

    async def runtime(self, sandbox_id: str) -> RuntimeClient:
        """Return a client for the runtime API of a sandbox, without extending or resuming it.

        Raises ``NotFoundError`` for an unknown sandbox.
        """
        sandbox_id = parse_sandbox_id(sandbox_id)
        transport = await self.transport()
        known = self._runtimes.get(sandbox_id)
        if known is None:
            detail = await PlatformClient(transport.config, transport).get(sandbox_id)
            known = RuntimeClient(
                transport,
                sandbox_id,
                access_token=detail.envd_access_token,
                domain=detail.domain,
            )
        self._remember(known)
        return known

    async def list_sandboxes(self) -> list[ListedSandbox]:
        """List the running and paused sandboxes, newest first.

        Front ends call this every few seconds, so it does not start an engine that the user has
        stopped: then the list is empty.
        """
        if not self._must_recheck:
            try:
                return await _collect(await self.platform())
            except UnavailableError as e:
                if not isinstance(e.__cause__, httpx.ConnectError):
                    raise
                self.recheck_engine()
        if self._is_stopped_on_purpose():
            self._state = "stopped"
            return []
        return await self.call(_collect)

    async def get_sandbox(self, sandbox_id: str) -> ListedSandbox:
        """Describe a sandbox; raises ``NotFoundError``."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        return _view(await self.call(lambda platform: platform.get(sandbox_id)))

    async def create_sandbox(
        self,
        *,
        template: str | None,
        timeout: int | None,
        metadata: dict[str, str],
        envs: dict[str, str],
    ) -> ListedSandbox:
        """Create a sandbox, with this server's defaults for arguments that are ``None``."""
        request = NewSandbox(
            template_id=template or self.defaults.template,
            timeout=self.defaults.timeout if timeout is None else timeout,
            metadata={**self.defaults.metadata, **metadata},
            env_vars=envs,
        )
        created = await self.call(lambda platform: platform.create(request))
        return await self.get_sandbox(created.sandbox_id)

    async def connect_sandbox(self, sandbox_id: str, timeout: int | None) -> ListedSandbox:
        """Resume a paused sandbox, or extend the time of a running one."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        seconds = self.defaults.timeout if timeout is None else timeout
        await self.call(lambda platform: platform.connect(sandbox_id, timeout=seconds))
        self.forget_tokens(sandbox_id)
        return await self.get_sandbox(sandbox_id)

    async def pause_sandbox(self, sandbox_id: str) -> None:
        """Pause a running sandbox."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        await self.call(lambda platform: platform.pause(sandbox_id))

    async def set_timeout(self, sandbox_id: str, timeout: int) -> None:
        """Let the sandbox end ``timeout`` seconds from now."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        await self.call(lambda platform: platform.set_timeout(sandbox_id, timeout))

    async def kill_sandbox(self, sandbox_id: str) -> None:
        """End a sandbox; raises ``NotFoundError`` for an unknown one."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        self.forget_tokens(sandbox_id)
        if not await self.call(lambda platform: platform.kill(sandbox_id)):
            raise NotFoundError(f"there is no sandbox {sandbox_id}")

    async def rename_sandbox(self, sandbox_id: str, name: str) -> ListedSandbox:
        """Change the name of a sandbox; an empty one removes it.

        Raises ``NotFoundError``, ``UnimplementedError`` for deployments other than the bundled
        engine.
        """
        sandbox_id = parse_sandbox_id(sandbox_id)
        change = {"name": name or None}
        try:
            return await self.call(lambda platform: platform.set_metadata(sandbox_id, change))
        except NotFoundError:
            await self.get_sandbox(sandbox_id)  # if the sandbox exists, the route is missing
            raise UnimplementedError("this deployment cannot rename sandboxes") from None

    async def read_history(
        self, sandbox_id: str, start: int | None, end: int | None
    ) -> list[SandboxMetric]:
        """Return the recorded readings between two Unix times in seconds, oldest first."""
        sandbox_id = parse_sandbox_id(sandbox_id)
        return await self.call(lambda platform: platform.metrics(sandbox_id, start=start, end=end))

    def note_failure(self, error: SbxError, sandbox_id: str | None) -> None:
        """After a failed call, forget what may be out of date: the engine's address or tokens."""
        if isinstance(error, UnavailableError):
            self.recheck_engine()
        if sandbox_id and isinstance(error, NotFoundError | UnauthenticatedError):
            self.forget_tokens(sandbox_id)

    def forget_tokens(self, sandbox_id: str) -> None:
        """Ask the platform for this sandbox's tokens again before the next call to it."""
        self._runtimes.pop(sandbox_id, None)

    def recheck_engine(self) -> None:
        """Check before the next call that the engine still runs at the same address."""
        self._must_recheck = True

    async def aclose(self) -> None:
        """Close every connection; the engine keeps running."""
        waiting: list[asyncio.Task[Any]] = [
            *self._tasks,
            *([self._starting] if self._starting else []),
        ]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._transport is not None:
            await self._transport.aclose()

    async def call(self, use: Callable[[PlatformClient], Awaitable[T]]) -> T:
        """Make a platform call; if the engine cannot be reached, find or start one and retry."""
        try:
            return await use(await self.platform())
        except UnavailableError as e:
            if not isinstance(e.__cause__, httpx.ConnectError):
                raise
            self.recheck_engine()
        return await use(await self.platform())

    async def _connect(self) -> Transport:
        config = self._configured() if self._settings.api_url else await self._bundled()
        self._must_recheck = False
        if self._transport is not None:
            if self._transport.config == config:
                return self._transport
            await self._transport.aclose()
            self._runtimes.clear()
        self._transport = Transport(config)
        self._in_background(self._read_isolation(self._transport))
        return self._transport

    def _configured(self) -> ConnectionConfig:
        settings = self._settings
        if not settings.api_key:
            raise UnauthenticatedError(
                "c.SbxExtension.api_url is set, but neither c.SbxExtension.api_key nor E2B_API_KEY"
            )
        return ConnectionConfig(
            api_url=settings.api_url,
            api_key=settings.api_key,
            sandbox_url=settings.sandbox_url or None,
            domain=settings.domain or None,
            ca_file=settings.ca_file or None,
        )

    async def _bundled(self) -> ConnectionConfig:
        if self._failure and time.monotonic() - self._failed_at < RETRY_START_AFTER:
            raise UnavailableError(self._failure.message)
        self._state = "starting"
        try:
            found = await asyncio.to_thread(self._find_engine)
        except (SbxError, OSError) as e:
            self._state = "failed"
            message = e.message if isinstance(e, SbxError) else f"cannot start the engine: {e}"
            self._failure, self._failed_at = UnavailableError(message), time.monotonic()
            self._log.error("%s", message)
            raise self._failure from e
        self._state, self._failure = "running", None
        return ConnectionConfig.from_connection_file(found)

    def _is_stopped_on_purpose(self) -> bool:
        """Return whether the engine removed its connection file, as it does unless it crashes."""
        data_dir = self._data_dir() or default_data_dir()
        return (
            not self._settings.api_url
            and self._transport is not None
            and not connection_file_of(data_dir).exists()
        )

    def _data_dir(self) -> Path | None:
        return Path(self._settings.data_dir).absolute() if self._settings.data_dir else None

    def _find_engine(self) -> ConnectionFile:
        """Find the running engine, or start one if ``auto_start`` is on; blocks."""
        data_dir = self._data_dir()
        if self._settings.auto_start:
            return bundled.ensure_engine(data_dir, self._settings.engine_timeout)
        if (found := bundled.find_engine(data_dir)) is None:
            raise UnavailableError(
                "no engine is running and c.SbxExtension.auto_start is off;"
                " start one with: jupyter sbx engine"
            )
        return found

    def _finish_start(self, task: asyncio.Task[Transport]) -> None:
        self._starting = None
        if not task.cancelled():
            # Read the error: asyncio would log it as never retrieved if no request waits any more.
            task.exception()

    async def _read_isolation(self, transport: Transport) -> None:
        """Read the engine's isolation report; other deployments may not have that route."""
        try:
            described = await PlatformClient(transport.config, transport).engine_info()
        except SbxError as e:
            self._log.info("the deployment has no isolation report: %s", e.message)
            return
        self._isolation = None if described is None else _isolation_of(described)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _remember(self, runtime: RuntimeClient) -> None:
        self._runtimes[runtime.sandbox_id] = runtime
        self._runtimes.move_to_end(runtime.sandbox_id)
        while len(self._runtimes) > MAX_KNOWN_SANDBOXES:
            self._runtimes.popitem(last=False)


def _isolation_of(described: dict[str, Any]) -> dict[str, Any]:
    """The isolation report of an engine, with the tier in use and the configured limits.

    ``tier`` may be weaker than ``best_tier`` by the engine's settings. ``amounts`` are the limits;
    the report says what enforces them.
    """
    report = dict(described.get("isolation") or {})
    best = report.get("tier")
    tier = described.get("tier", best)
    return {
        **report,
        "tier": tier,
        "best_tier": best,
        "network": described.get("network"),
        "amounts": described.get("limits") or {},
    }


async def _collect(platform: PlatformClient) -> list[ListedSandbox]:
    found: list[ListedSandbox] = []
    async for sandbox in platform.list():
        found.append(_view(sandbox))
        if len(found) >= MAX_LISTED_SANDBOXES:
            break
    return found


def _view(sandbox: ListedSandbox) -> ListedSandbox:
    """Copy only the fields of a listing: a detail record has the access token as well."""
    names = (field.name for field in msgspec.structs.fields(ListedSandbox))
    return ListedSandbox(**{name: getattr(sandbox, name) for name in names})
