"""Describes the routes below ``sbx/api`` by OpenAPI 3.1, from what their handlers declare."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.server.answers import RESOURCE, SandboxRoute
from sbx_jupyter.server.description.operations import (
    EVENT_STREAM,
    JSON,
    OCTETS,
    Answer,
    Failure,
    Parameter,
    answers_of,
)
from sbx_jupyter.server.description.schemas import Schemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERBS: Final = ("get", "post", "patch", "delete")
_GROUP: Final = re.compile(r"\(\?P<(?P<name>\w+)>(?:[^()]|\([^()]*\))*\)")
_PREFIX: Final = "sbx/api"
_CALL: Final = "{service}/{method}"
_OF_VERB: Final = {"get": "read", "post": "write", "patch": "write", "delete": "write"}
"""The action that ``authorized`` checks by default; some routes check more."""

_CONNECTION: Final = Parameter(
    "connection", "A connection by name; default: the sandbox's, else the default one."
)
_PHRASES: Final = {
    101: "A WebSocket",
    200: "Success",
    201: "Created",
    202: "Begun",
    204: "Done",
    206: "A part of the file",
    304: "Unchanged",
}


class Operation(NamedTuple):
    """One verb of one path."""

    path: str
    verb: str
    action: str
    summary: str
    body: Any
    queries: Sequence[Parameter]
    answers: Sequence[Answer]


class DescriptionHandler(SandboxRoute):
    """Describes the routes below ``sbx/api``."""

    answers: ClassVar = {"get": Answer(dict[str, Any])}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(self.settings["sbx_jupyter"].description)


def operations_of(routes: Sequence[tuple[str, type[Any]]]) -> list[Operation]:
    """The operations of ``routes``; sockets are described by their handshake."""
    return [found for pattern, kind in routes for found in _of(path_of(pattern), kind)]


def describe(routes: Sequence[tuple[str, type[Any]]], version: str) -> dict[str, Any]:
    """The description of ``routes``."""
    operations = operations_of(routes)
    schemas = Schemas(
        taken=[each.body for each in operations if each.body not in (None, bytes)],
        given=[Failure, *(answer.kind for each in operations for answer in each.answers)],
    )
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.verb] = _describe(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sbx-jupyter: routes of the Jupyter server", "version": version},
        "servers": [{"url": f"{{base_url}}{_PREFIX}", "variables": {"base_url": {"default": "/"}}}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"},
            },
        },
        "security": [{"token": []}],
    }


def _of(path: str, kind: type[Any]) -> Iterator[Operation]:
    """The verbs of a handler, one for each call where it passes on calls of the runtime API."""
    bodies: dict[str, Any] = getattr(kind, "bodies", {})
    actions: dict[str, str] = getattr(kind, "actions", {})
    queries: dict[str, Sequence[Parameter]] = getattr(kind, "queries", {})
    for verb in VERBS:
        method = kind.__dict__.get(verb) or ((verb == "get" and hasattr(kind, "serve")) or None)
        if method is None:
            continue
        text = inspect.getdoc(method) if inspect.isfunction(method) else None
        summary = _sentence(text or inspect.getdoc(kind) or "")
        action = actions.get(verb, _OF_VERB[verb])
        taken = queries.get(verb, ())
        if (calls := getattr(kind, "methods", None)) is None:
            answers = answers_of(kind, verb)
            yield Operation(path, verb, action, summary, bodies.get(verb), taken, answers)
            continue
        for name, call in calls.items():
            own = path.replace(_CALL, name)
            answers = (Answer(call.answer),)
            yield Operation(own, verb, call.action, summary, call.request, taken, answers)


def _sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    joined = " ".join(text.split("\n\n")[0].split())
    return f"{joined.split('. ')[0].rstrip('.')}."


def path_of(pattern: str) -> str:
    """The path of a route, without the prefix of all and with its parameters in braces."""
    return _GROUP.sub(r"{\g<name>}", pattern.removeprefix(_PREFIX)).replace("\\", "")


def _describe(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    path, verb, action, summary, body, queries, answers = operation
    described: dict[str, Any] = {
        "summary": summary,
        "operationId": f"{verb} {path}",
        "x-jupyter-resource": RESOURCE,
        "x-jupyter-action": action,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ],
        "responses": {str(each.status): _answer(each, schemas) for each in answers},
    }
    described["parameters"] += [_parameter(each, schemas) for each in (*queries, _CONNECTION)]
    described["responses"]["default"] = {
        "description": "An error, with its Connect code",
        "content": {JSON: {"schema": schemas.of(Failure)}},
    }
    if body is not None:
        described["requestBody"] = _body(body, schemas)
    return described


def _parameter(parameter: Parameter, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "schema": schemas.simple(parameter.kind),
        "description": parameter.text,
    }
    return described | ({"required": True} if parameter.is_required else {})


def _body(body: Any, schemas: Schemas) -> dict[str, Any]:
    if body is bytes:
        return {"content": {OCTETS: {"schema": {}}}, "required": True}
    content = {JSON: {"schema": schemas.of(body)}}
    return {"content": content, "required": schemas.needs_fields(body)}


def _answer(answer: Answer, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {"description": _PHRASES[answer.status]}
    if answer.kind is None:
        return described
    if answer.media == EVENT_STREAM:
        described["description"] = "Server-sent events: the data of each, by the event's name"
    schema: dict[str, Any] = {} if answer.kind is bytes else schemas.of(answer.kind)
    described["content"] = {answer.media: {"schema": schema}}
    return described
