"""The audit log: who did what to which sandbox, from where; never what was read or written.

``audit.jsonl`` has what clients do. Connections that egress proxies open or refuse for sandboxes
are in ``egress.jsonl``, a file of their own, because hostile code could fill it.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from sbx_jupyter.engine.token_bucket import TokenBucket
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from sbx_jupyter.service.log_file import LogFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sbx_jupyter.engine.engine import Engine
    from sbx_jupyter.engine.owners import Caller
    from sbx_jupyter.protocol.access import Route

_MAX_TEXT: Final = 512
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NAME: Final = "sbx_jupyter.audit"
_EGRESS_BURST: Final = 100
_EGRESS_PER_SECOND: Final = 1.0
_MAX_BUDGETS: Final = 4096

_ID: Final = r"/(?P<sandbox>[a-z0-9]+)(?:-[a-z0-9]+)?"
_ACTIONS: Final = tuple(
    (method, re.compile(path), action)
    for method, path, action in (
        ("POST", r"(?:/v2)?/sandboxes", "sandbox.create"),
        ("DELETE", rf"/sandboxes{_ID}", "sandbox.end"),
        ("POST", rf"(?:/v2)?/sandboxes{_ID}/(?P<verb>[a-z]+)", "sandbox.{verb}"),
        ("PUT", rf"/sandboxes{_ID}/network", "sandbox.network"),
        ("PATCH", rf"/engine/sandboxes{_ID}", "sandbox.metadata"),
        ("DELETE", rf"/engine/sandboxes{_ID}/operations/.*", "sandbox.cancel"),
        ("DELETE", r"/templates/[^/]+", "template.remove"),
        ("POST", r"/v\d/templates/[^/]+/builds/[^/]+", "template.build"),
        ("PUT", r"/template-uploads/.*", "template.upload"),
        ("POST", r"/volumes", "volume.create"),
        ("DELETE", r"/volumes/[^/]+", "volume.remove"),
        ("PUT", r"/volumecontent/[^/]+/.*", "volume.write"),
        ("POST", r"/volumecontent/[^/]+/.*", "volume.write"),
        ("PATCH", r"/volumecontent/[^/]+/.*", "volume.write"),
        ("DELETE", r"/volumecontent/[^/]+/.*", "volume.delete"),
        ("POST", r"/secrets", "secret.create"),
        ("POST", r"/secrets/[^/]+", "secret.update"),
        ("DELETE", r"/secrets/[^/]+", "secret.remove"),
        ("POST", r"/engine/keys", "key.create"),
        ("DELETE", r"/engine/keys/[^/]+", "key.remove"),
        ("POST", r"/engine/prune", "engine.prune"),
    )
)


class AuditedRequest(Protocol):
    """The parts of a request that the audit log needs; a ``RoutedRequest`` has them."""

    @property
    def request_id(self) -> str: ...
    @property
    def method(self) -> str | None: ...
    @property
    def path(self) -> str: ...
    @property
    def remote_ip(self) -> str | None: ...
    @property
    def caller(self) -> Caller | None: ...
    @property
    def made(self) -> tuple[str, ...]: ...
    @property
    def route(self) -> Route | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Audit:
    """Writes the two audit files of an engine, with mode 0600 and a limited size."""

    def __init__(self, directory: Path) -> None:
        """Raises ``OSError``."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clients = _open(directory / "audit.jsonl")
        self._egress = _open(directory / "egress.jsonl")
        self._budgets: dict[str, _Budget] = {}

    def close(self) -> None:
        """Write the buffered lines and close the files."""
        self._clients.close()
        self._egress.close()

    def platform_call(self, request: AuditedRequest, status: int) -> None:
        """Note a call of the platform API that changes something, after its answer."""
        method = request.method or ""
        if method in _READING:
            return
        action, sandbox_id = _action_of(method, request.path)
        self._note(
            request,
            action,
            owner=None if request.caller is None else request.caller.owner,
            sandbox=sandbox_id,
            path=_without_link(request.path),
            status=status,
            made=list(request.made) or None,
        )

    def runtime_call(self, request: AuditedRequest, engine: Engine, action: str, what: str) -> None:
        """Note a call to a sandbox before it is carried out; its token says whose it is."""
        route = request.route
        if route is None:
            return
        owner = engine.sandboxes.owner_of(route.sandbox_id)
        self._note(request, action, owner=owner, sandbox=route.sandbox_id, what=what)

    def port_call(self, request: AuditedRequest, engine: Engine) -> None:
        """Note code that is sent to the interpreter; other requests to ports are not noted."""
        route = request.route
        is_code = request.method == "POST" and request.path.rstrip("/") == "/execute"
        if route is not None and route.port == INTERPRETER_PORT and is_code:
            self.runtime_call(request, engine, "exec", "code")

    def egress(self, sandbox_id: str, target: str, refused: str | None) -> None:
        """Note a connection that a sandbox's proxy opened, or why it was refused."""
        if (budget := self._budgets.get(sandbox_id)) is None:
            while len(self._budgets) >= _MAX_BUDGETS:
                del self._budgets[next(iter(self._budgets))]
            budget = self._budgets[sandbox_id] = _Budget()
        if not budget.bucket.try_take():
            budget.skipped += 1
            return
        fields: dict[str, Any] = {
            "action": "egress.open" if refused is None else "egress.refuse",
            "sandbox": sandbox_id,
            "target": target,
            "refused": refused,
            "not_noted": budget.skipped or None,
        }
        budget.skipped = 0
        _write(self._egress, fields)

    def _note(self, request: AuditedRequest, action: str, **fields: Any) -> None:
        forwarded = request.headers.get("X-Forwarded-For")
        peer = {"from": request.remote_ip, "forwarded_for": forwarded}
        _write(self._clients, {"action": action, **fields, **peer, "request": request.request_id})


class _Budget:
    """Limits the number of decisions about one sandbox that are written."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(_EGRESS_PER_SECOND, _EGRESS_BURST)
        self.skipped = 0


class _Lines(logging.Formatter):
    """Formats the fields of a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat()
        fields: dict[str, Any] = getattr(record, "fields", {})
        return msgspec.json.encode({"time": at, **fields}).decode()


def _open(path: Path) -> LogFile:
    file = LogFile(path, deferred=_NAME)
    file.setFormatter(_Lines())
    return file


def _write(file: LogFile, fields: dict[str, Any]) -> None:
    kept = {
        name: value[:_MAX_TEXT] if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    file.handle(logging.makeLogRecord({"name": _NAME, "fields": kept}))


def _action_of(method: str, path: str) -> tuple[str, str | None]:
    """The action that a call stands for, and its sandbox if the path names one."""
    for verb, pattern, action in _ACTIONS:
        if verb == method and (found := pattern.fullmatch(path)):
            groups = found.groupdict()
            return action.format(verb=groups.get("verb", "")), groups.get("sandbox")
    return f"{method.lower()} {path.split('/')[1] if '/' in path else ''}"[:64], None


def _without_link(path: str) -> str:
    """The path, without the part of an upload link that is a credential."""
    return path if not path.startswith("/template-uploads/") else "/template-uploads/"
