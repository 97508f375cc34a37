"""One connection of the server process: a deployment, its state, and the bundled engine."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from sbx_jupyter.client.api.attachments import AttachmentsClient
from sbx_jupyter.client.api.capabilities import explain_versions, find_capabilities
from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.client.api.runtime import RuntimeClient
from sbx_jupyter.client.api.transport import Transport
from sbx_jupyter.errors import (
    NotFoundError,
    SbxError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.server.deployments.connection_state import (
    isolation_of,
    remedy_for,
    state_after,
)
from sbx_jupyter.server.deployments.listing import collect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from logging import Logger

    from sbx_jupyter.client.api.capabilities import Capabilities
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.client.connection.named_connections import NamedConnection
    from sbx_jupyter.protocol.platform import ListedSandbox
    from sbx_jupyter.server.deployments.changes import Changes
    from sbx_jupyter.server.deployments.connection_state import (
        ConnectionInfo,
        ConnectionState,
        EngineInfo,
        EngineState,
    )
    from sbx_jupyter.server.deployments.local_engine import LocalEngine
    from sbx_jupyter.server.deployments.session_key import SessionKey

T = TypeVar("T")

CHECK_AGAIN_AFTER: Final = 5.0
"""Seconds between two questions to a deployment that refused the key or did not answer."""

MAX_KNOWN_SANDBOXES: Final = 512
MAX_SEEN_SANDBOXES: Final = 4096


@dataclass(frozen=True, slots=True)
class SandboxDefaults:
    """The defaults for a new sandbox; ``timeout`` is in seconds."""

    template: str = "base"
    timeout: int = 300
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


class Connection:
    """Holds the transport to one deployment and the tokens of its sandboxes.

    Front ends never get keys or tokens: every record for them is a ``ListedSandbox``.
    """

    def __init__(
        self,
        named: NamedConnection,
        defaults: SandboxDefaults,
        *,
        log: Logger,
        engine: LocalEngine | None = None,
        key: SessionKey | None = None,
    ) -> None:
        """``engine`` is given for the local connection, and for no other.

        ``key`` takes the place of the engine's own key, and is revoked by ``aclose``.
        """
        self._key = key
        self.named = named
        self.defaults = defaults
        self._engine = engine
        self._log = log
        self._transport: Transport | None = None
        self._must_recheck = False
        self._starting: asyncio.Task[Transport] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        self._problem: SbxError | None = None
        self.capabilities: Capabilities | None = None
        """Capabilities of the deployment; ``None`` until it was asked."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._runtimes: OrderedDict[str, RuntimeClient] = OrderedDict()
        self.changes: Changes | None = None
        """Tells pages what changes; ``None`` until one asks."""

    def describe(self) -> ConnectionInfo:
        """The entry of this connection in the answers of the server; does not wait.

        Begins to ask a remote deployment what it can do if that is not known, or if it did not
        answer a while ago.
        """
        self._check_if_due()
        state, message = self._judge()
        capabilities = self.capabilities
        return {
            "name": self.named.name,
            "kind": "local" if self.named.is_local else "remote",
            "host": self.named.host,
            "state": state,
            "message": message,
            "remedy": remedy_for(self.named, state),
            "engineVersion": None if capabilities is None else capabilities.version,
            "missing": {} if capabilities is None else dict(capabilities.missing),
        }

    def describe_engine(self) -> EngineInfo:
        """The parts of ``GET sbx/api/info`` on the engine and its isolation; does not wait."""
        engine: EngineState = {"state": "remote"}
        if self._engine is not None:
            engine = {"state": self._engine.state}
            if self._engine.failure is not None:
                engine["message"] = self._engine.failure.message
        described = None if self.capabilities is None else self.capabilities.engine
        return {
            "engine": engine,
            "isolation": None if described is None else isolation_of(described),
            "url_kind": "bundled" if self.named.is_local else "configured",
            "host": self.named.host,
        }

    def knows(self, sandbox_id: str) -> bool:
        """Whether this connection has listed, created or called the sandbox."""
        return sandbox_id in self._seen

    def note_seen(self, sandbox_id: str) -> None:
        """Remember that the sandbox is of this connection (see ``knows``)."""
        self._seen[sandbox_id] = None
        self._seen.move_to_end(sandbox_id)
        while len(self._seen) > MAX_SEEN_SANDBOXES:
            self._seen.popitem(last=False)

    def require(self, capability: str) -> None:
        """Raise ``UnimplementedError`` with the reason if the deployment is known to lack it."""
        if self.capabilities is None:
            return
        if (reason := self.capabilities.missing.get(capability)) is not None:
            raise UnimplementedError(f"'{self.named.name}' cannot do this: {reason}")

    def has_feature(self, name: str) -> bool:
        """Whether the deployment is known to be an engine with a feature of ``/engine/info``.

        Begins to ask it if that is not known.
        """
        self._check_if_due()
        described = None if self.capabilities is None else self.capabilities.engine
        return described is not None and name in described.get("features", ())

    async def platform(self) -> AttachmentsClient:
        """Return a platform client; starts the bundled engine if needed, as ``transport`` does."""
        transport = await self.transport()
        return AttachmentsClient(transport.config, transport)

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
        listed = await self._list_sandboxes()
        for sandbox in listed:
            self.note_seen(sandbox.sandbox_id)
        return listed

    async def _list_sandboxes(self) -> list[ListedSandbox]:
        if not self._must_recheck:
            try:
                return await collect(await self.platform())
            except UnavailableError as e:
                if not isinstance(e.__cause__, httpx.ConnectError):
                    raise
                self.recheck_engine()
        if self._engine is not None and self._transport is not None and self._engine.is_stopped():
            self._engine.note_stopped()
            return []
        return await self.call(collect)

    def note_failure(self, error: SbxError, sandbox_id: str | None) -> None:
        """After a failed call, forget what may be out of date: the engine's address or tokens."""
        if isinstance(error, UnavailableError):
            self.recheck_engine()
        if isinstance(error, UnavailableError | UnauthenticatedError):
            self._begin_check()
        if sandbox_id and isinstance(error, NotFoundError | UnauthenticatedError):
            self.forget_tokens(sandbox_id)

    def forget_tokens(self, sandbox_id: str) -> None:
        """Ask the platform for this sandbox's tokens again before the next call to it."""
        self._runtimes.pop(sandbox_id, None)

    def seen(self) -> list[str]:
        """The sandboxes that it has listed, created or called, the last one first."""
        return list(reversed(self._seen))

    def forget(self, sandbox_id: str) -> None:
        """Forget a sandbox that is not there any more."""
        self._seen.pop(sandbox_id, None)
        self.forget_tokens(sandbox_id)

    def recheck_engine(self) -> None:
        """Check before the next call that the engine still runs at the same address."""
        self._must_recheck = True

    def is_awake(self) -> bool:
        """Whether a call would not start an engine that has ended or was stopped."""
        return self._engine is None or not self._engine.is_stopped()

    async def aclose(self) -> None:
        """Close every connection; the engine keeps running."""
        if self.changes is not None:
            await self.changes.aclose()
        waiting: list[asyncio.Task[Any]] = [
            task for task in (self._checking, self._starting) if task is not None
        ]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._transport is not None:
            await self._transport.aclose()
        if self._key is not None:
            await asyncio.to_thread(self._key.revoke)

    async def call(self, use: Callable[[AttachmentsClient], Awaitable[T]]) -> T:
        """Make a platform call; if the engine cannot be reached, find or start one and retry."""
        try:
            return await use(await self.platform())
        except UnavailableError as e:
            if not isinstance(e.__cause__, httpx.ConnectError):
                raise
            self.recheck_engine()
        return await use(await self.platform())

    async def _connect(self) -> Transport:
        config = await self._find()
        self._must_recheck = False
        if self._transport is not None:
            if self._transport.config == config:
                return self._transport
            await self._transport.aclose()
            self._runtimes.clear()
        self._transport = Transport(config)
        if self.named.is_local:
            self._begin_check()
        return self._transport

    async def _find(self) -> ConnectionConfig:
        if self._engine is None:
            return self.named.resolve()
        found = await self._engine.find()
        if self._key is None:
            return found
        await asyncio.to_thread(self._key.register)
        return replace(found, api_key=self._key.value)

    def _finish_start(self, task: asyncio.Task[Transport]) -> None:
        self._starting = None
        if not task.cancelled():
            # Read the error: asyncio would log it as never retrieved if no request waits any more.
            task.exception()

    def _judge(self) -> tuple[ConnectionState, str | None]:
        """The state of the connection, and what there is to say about it."""
        from sbx_jupyter import __version__

        engine = self._engine
        if engine is not None and engine.state != "running":
            if engine.failure is not None:
                return "unreachable", engine.failure.message
            return ("starting" if engine.state == "starting" else "stopped"), None
        if self._problem is not None:
            return state_after(self._problem), self._problem.message
        if self.capabilities is None:
            return "starting", None
        unfit = explain_versions(__version__, self.capabilities.version)
        return ("ready", None) if unfit is None else ("incompatible", unfit)

    def _check_if_due(self) -> None:
        if self.capabilities is not None and self._problem is None:
            return
        if self._problem is not None and time.monotonic() - self._checked_at < CHECK_AGAIN_AFTER:
            return
        engine = self._engine
        if engine is None or (engine.state == "running" and not engine.is_stopped()):
            self._begin_check()

    def _begin_check(self) -> None:
        """Ask the deployment in the background what it can do, unless that is under way."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        try:
            if self.named.is_local and self._transport is not None:
                transport = self._transport
            else:
                transport = await self.transport()
            found = await find_capabilities(PlatformClient(transport.config, transport))
        except SbxError as error:
            self._problem = error
            self._log.info("the connection '%s': %s", self.named.name, error.message)
        else:
            self._problem, self.capabilities = None, found
        finally:
            self._checked_at = time.monotonic()

    def _remember(self, runtime: RuntimeClient) -> None:
        self.note_seen(runtime.sandbox_id)
        self._runtimes[runtime.sandbox_id] = runtime
        self._runtimes.move_to_end(runtime.sandbox_id)
        while len(self._runtimes) > MAX_KNOWN_SANDBOXES:
            self._runtimes.popitem(last=False)
