"""Generates the OpenAPI 3.1 description of the API from the operations of the handlers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.protocol import access, connect
from sbx_jupyter.protocol.platform import Error
from sbx_jupyter.service.platform import operation_spec
from sbx_jupyter.service.runtime.connect import Unary
from sbx_jupyter.service.runtime.routes import METHODS, RUNTIME_ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tornado.web import RequestHandler

    from sbx_jupyter.service.platform.operation_spec import Operation

_VERBS: Final = ("get", "head", "post", "put", "patch", "delete")
_SEGMENT: Final = re.compile(r"\(\[\^/\]\+\)")
_NAMED_FAILURE: Final = {
    "type": "object",
    "properties": {"code": {"type": ["string", "integer"]}, "message": {"type": "string"}},
    "required": ["code", "message"],
}
_PHRASES: Final = {
    200: "Success",
    201: "Created",
    202: "Accepted",
    204: "Done",
    206: "A part of the file",
    304: "Unchanged",
}


@lru_cache(maxsize=1)
def describe(version: str, platform_routes: tuple[tuple[str, type[RequestHandler]], ...]) -> bytes:
    """The description of ``platform_routes`` and of the runtime's routes, as JSON."""
    platform = [(route[0], verb, found) for route in platform_routes for verb, found in _of(route)]
    runtime = [(route[0], verb, found) for route in RUNTIME_ROUTES for verb, found in _of(route)]
    unary = {name: method for name, method in METHODS.items() if isinstance(method, Unary)}
    kinds: dict[Any, None] = {Error: None}
    for _, _, found in (*platform, *runtime):
        for kind in (found.body, *found.answers.values()):
            if kind is not None and not isinstance(kind, str):
                kinds.setdefault(kind)
    for method in unary.values():
        kinds.setdefault(method.request)
    schemas, components = msgspec.json.schema_components(
        list(kinds), ref_template="#/components/schemas/{name}"
    )
    of_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for pattern, verb, found in platform:
        path, names = _path(pattern)
        item = _operation(found, names, of_kind, path, verb)
        item["tags"] = ["platform"]
        paths.setdefault(path, {})[verb] = item
    for pattern, verb, found in runtime:
        path, names = _path(pattern)
        item = _operation(found, names, of_kind, path, verb)
        _make_runtime(item, needs_token=path != "/health")
        # The engine's own /health has the same path; a client tells them apart by its headers.
        paths.setdefault(path, {}).setdefault(verb, item)
    for name, method in unary.items():
        paths[f"/{name}"] = {"post": _rpc(name, of_kind[method.request])}
    return msgspec.json.encode(_document(version, paths, components))


def _document(version: str, paths: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sbx-jupyter",
            "version": version,
            "description": (
                "Routes tagged `platform` manage sandboxes. Routes tagged `runtime` act inside one"
                " sandbox, which is named by the routing headers or by the host"
                " `49983-<sandboxID>.<domain>`. Streaming methods of the runtime are not described"
                f" here; they use `{connect.STREAM_CONTENT_TYPE}`. All methods of the runtime speak"
                f" `{connect.BINARY_CONTENT_TYPE}` and `{connect.BINARY_STREAM_CONTENT_TYPE}`, too."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "apiKey": {"type": "apiKey", "in": "header", "name": access.API_KEY_HEADER},
                "volumeToken": {"type": "http", "scheme": "bearer"},
                "accessToken": {
                    "type": "apiKey",
                    "in": "header",
                    "name": access.ACCESS_TOKEN_HEADER,
                },
            },
        },
    }


def _of(route: Any) -> Iterator[tuple[str, Operation]]:
    for verb in _VERBS:
        found = getattr(getattr(route[1], verb), operation_spec.ATTRIBUTE, None)
        if found is not None:
            yield verb, found


def _path(pattern: str) -> tuple[str, list[str]]:
    """A route's pattern as a path with named parameters."""
    names: list[str] = []

    def name(_: re.Match[str]) -> str:
        of = (("volume", "volumeID"), ("templates", "templateID"), ("sandboxes", "sandboxID"))
        names.append(next((named for word, named in of if word in pattern), "name"))
        if len(names) > 1:
            names[-1] = f"part{len(names)}"
        return f"{{{names[-1]}}}"

    return _SEGMENT.sub(name, pattern), names


def _operation(
    found: Operation, names: list[str], of_kind: dict[Any, Any], path: str, verb: str
) -> dict[str, Any]:
    item: dict[str, Any] = {
        "summary": found.summary,
        "operationId": f"{verb} {path}",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ],
        "responses": {},
        "security": [{"apiKey": []}],
    }
    item["parameters"] += [_parameter(parameter) for parameter in found.query]
    if found.body is not None:
        item["requestBody"] = {
            "required": not found.is_body_optional,
            "content": _content(found.body, of_kind),
        }
    for status, kind in found.answers.items():
        item["responses"][str(status)] = _answer(status, kind, of_kind)
    # Errors of volume content carry their code as text (interface 1.6.2).
    failure = _NAMED_FAILURE if path.startswith("/volumecontent/") else of_kind[Error]
    for status in sorted({*found.errors, 413, 507}):
        item["responses"][str(status)] = {
            "description": "An error",
            "content": {"application/json": {"schema": failure}},
        }
    if path.startswith("/volumecontent/"):
        item["security"] = [{"volumeToken": []}]
    if 401 not in found.errors:
        item["security"] = []
    return item


def _parameter(parameter: operation_spec.Parameter) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "schema": parameter.schema,
    }
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": False}
    if parameter.description:
        described["description"] = parameter.description
    return described


def _answer(status: int, kind: Any, of_kind: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _PHRASES[status]}
    if kind is not None:
        answer["content"] = _content(kind, of_kind)
    return answer


def _content(kind: Any, of_kind: dict[Any, Any]) -> dict[str, Any]:
    if not isinstance(kind, str):
        return {"application/json": {"schema": of_kind[kind]}}
    if kind == "multipart/form-data":
        file = {"type": "string", "contentMediaType": "application/octet-stream"}
        schema: dict[str, Any] = {"type": "object", "properties": {"file": file}}
        return {kind: {"schema": schema}}
    return {kind: {"schema": {}}}


def _make_runtime(item: dict[str, Any], *, needs_token: bool) -> None:
    item["tags"] = ["runtime"]
    item["security"] = [{"accessToken": []}] if needs_token else []
    item["parameters"] += _routing()


def _routing() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "header",
            "required": True,
            "schema": {"type": "string", "pattern": pattern},
        }
        for name, pattern in (
            (access.SANDBOX_ID_HEADER, "^[a-z0-9]+$"),
            (access.SANDBOX_PORT_HEADER, "^49983$"),
        )
    ]


def _rpc(name: str, request: dict[str, Any]) -> dict[str, Any]:
    # Connect errors carry their code as text, a refused token as a number.
    content = {"application/json": {"schema": request}}
    return {
        "summary": name,
        "operationId": name,
        "tags": ["runtime"],
        "security": [{"accessToken": []}],
        "parameters": _routing(),
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {
                "description": "Success",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            "default": {
                "description": "An error",
                "content": {"application/json": {"schema": _NAMED_FAILURE}},
            },
        },
    }
