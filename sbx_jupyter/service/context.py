"""The context of every handler: the engine, its key, its settings and its counters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tornado.web
from tornado.httputil import HTTPServerRequest

from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.service.changes import ChangeStreams
from sbx_jupyter.service.counters import ConnectionLimits, Counters
from sbx_jupyter.service.open_call_limits import OpenCallLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbx_jupyter.engine.engine import Engine
    from sbx_jupyter.engine.owners import Caller
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.audit import Audit
    from sbx_jupyter.service.owner_keys import OwnerKeys
    from sbx_jupyter.service.session_keys import SessionKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The operator's settings of the HTTP service."""

    version: str
    domain: str | None = None
    allow_origin: str = "*"
    max_connections_per_sandbox: int = 512
    features: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Service:
    """One engine with the settings and state of its HTTP service."""

    engine: Engine
    api_key: str = field(repr=False)
    session_keys: SessionKeys
    owner_keys: OwnerKeys
    audit: Audit | None = None
    settings: ServiceSettings
    counters: Counters = field(default_factory=Counters)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    open_calls: OpenCallLimits = field(default_factory=OpenCallLimits)
    changing_keys: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the keys of owners change."""
    changes: ChangeStreams = field(init=False)
    """Tells clients which rows and ports have changed."""
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Work that outlives the handler that began it; cancelled when the service stops."""

    def __post_init__(self) -> None:
        self.changes = ChangeStreams(self.engine)

    def note_runtime_call(self, request: RoutedRequest, action: str, what: str) -> None:
        """Write a call to a sandbox to the audit log, if there is one."""
        if self.audit is not None:
            self.audit.runtime_call(request, self.engine, action, what)


class SbxApplication(tornado.web.Application):
    """A set of routes of one service."""

    def __init__(self, routes: Sequence[Any], service: Service, **settings: Any) -> None:
        super().__init__(list(routes), compress_response=False, **settings)
        self.routes = tuple(routes)
        self.service = service


class RoutedRequest(HTTPServerRequest):
    """A request with its id, and its route if it is for a sandbox."""

    route: Route | None = None
    by_signature: bool = False
    """The sandbox was found by the signature of the request, not by its host or headers."""

    max_body: int | None = None
    """The most bytes of body that are forwarded; ``None`` for any number."""

    request_id: str = ""
    caller: Caller | None = None
    """The caller of the platform API, once the key is known."""

    made: tuple[str, ...] = ()
    """The ids of the sandboxes that it made."""

    when_ended: Callable[[], None] | None = None
    """Called when the whole body has arrived."""

    has_ended: bool = False
