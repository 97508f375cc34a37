"""Describes the routes below ``sbx/api`` by OpenAPI 3.1, from the handlers themselves."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.server.answers import RESOURCE, SandboxRoute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERBS: Final = ("get", "post", "patch", "delete")
_GROUP: Final = re.compile(r"\(\?P<(?P<name>\w+)>(?:[^()]|\([^()]*\))*\)")
_PREFIX: Final = "sbx/api"
_OF_VERB: Final = {"get": "read", "post": "write", "patch": "write", "delete": "write"}
"""What ``authorized`` asks about by default; some routes ask for more."""

_FAILURE: Final[dict[str, Any]] = {
    "description": "An error, with its Connect code",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                "required": ["code", "message"],
            }
        }
    },
}


class DescriptionHandler(SandboxRoute):
    """Describes the routes below ``sbx/api``."""

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(self.settings["sbx_jupyter"].description)


def describe(routes: Sequence[tuple[str, type[Any]]], version: str) -> dict[str, Any]:
    """The description of ``routes``; sockets are described by their handshake."""
    operations = [(_path(pattern), *found) for pattern, kind in routes for found in _of(kind)]
    bodies = {body: None for *_, body in operations if body is not None}
    schemas, components = msgspec.json.schema_components(
        list(bodies), ref_template="#/components/schemas/{name}"
    )
    of_body = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for path, verb, action, summary, body in operations:
        paths.setdefault(path, {})[verb] = _operation(
            path, verb, action, summary, None if body is None else of_body[body]
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "sbx-jupyter: routes of the Jupyter server", "version": version},
        "servers": [{"url": f"{{base_url}}{_PREFIX}", "variables": {"base_url": {"default": "/"}}}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"},
            },
        },
        "security": [{"token": []}],
    }


def _of(kind: type[Any]) -> Iterator[tuple[str, str, str, Any]]:
    """The verbs of a handler, each with its action, a sentence and the type of its body."""
    bodies: dict[str, Any] = getattr(kind, "bodies", {})
    actions: dict[str, str] = getattr(kind, "actions", {})
    for verb in VERBS:
        method = kind.__dict__.get(verb) or ((verb == "get" and hasattr(kind, "serve")) or None)
        if method is None:
            continue
        text = inspect.getdoc(method) if inspect.isfunction(method) else None
        action = actions.get(verb, _OF_VERB[verb])
        yield verb, action, _sentence(text or inspect.getdoc(kind) or ""), bodies.get(verb)


def _sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    joined = " ".join(text.split("\n\n")[0].split())
    return f"{joined.split('. ')[0].rstrip('.')}."


def _path(pattern: str) -> str:
    return _GROUP.sub(r"{\g<name>}", pattern.removeprefix(_PREFIX)).replace("\\", "")


def _operation(
    path: str, verb: str, action: str, summary: str, body: dict[str, Any] | None
) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": f"{verb} {path}",
        "x-jupyter-resource": RESOURCE,
        "x-jupyter-action": action,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ],
        "responses": {"2XX": {"description": "Done"}, "default": _FAILURE},
    }
    operation["parameters"].append(
        {
            "name": "connection",
            "in": "query",
            "schema": {"type": "string"},
            "description": "A connection by name; default: the sandbox's, else the default one.",
        }
    )
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation
