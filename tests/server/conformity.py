"""Compares what the routes take and give with their description."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from sbx_jupyter.server.description.openapi import VERBS, describe, path_of
from sbx_jupyter.server.routes import HANDLERS

OPEN = {"Isolation", "MissingPart"}
"""Records that engines may add to."""

MOST_ITEMS = 20
"""Items of a list that are looked at."""


@cache
def description() -> dict[str, Any]:
    """The description in which answers may have no fields that it does not name."""
    described = json.loads(json.dumps(describe(HANDLERS, "")))
    for name, component in described["components"]["schemas"].items():
        if name not in OPEN:
            _close(component)
    for item in described["paths"].values():
        for operation in item.values():
            _close(operation["responses"])
    return described


@cache
def paths() -> dict[type, str]:
    return {handler: path_of(pattern) for pattern, handler in HANDLERS}


@cache
def validator(path: str, verb: str, status: str, media: str) -> Draft202012Validator:
    answer = description()["paths"][path][verb]["responses"][status]
    schema = answer["content"][media]["schema"]
    return Draft202012Validator({**schema, "components": description()["components"]})


@dataclass
class Conformity:
    """What the routes of one test did that the description does not say."""

    problems: list[str] = field(default_factory=list[str])
    answered: set[str] = field(default_factory=set[str])
    """Operations that were answered as described, and not with an error."""

    def operation(self, handler: Any) -> tuple[str, str, dict[str, Any]] | None:
        """The path, the verb and the description of a request; ``None`` for other verbs."""
        verb = handler.request.method.lower()
        if type(handler) not in paths() or verb not in VERBS:
            return None
        path = paths()[type(handler)]
        item = description()["paths"]
        for name in ("service", "method"):
            path = path.replace(f"{{{name}}}", handler.path_kwargs.get(name) or "")
        found = item.get(path, {}).get(verb)
        return None if found is None else (path, verb, found)

    def note_query(self, handler: Any, name: str) -> None:
        if (found := self.operation(handler)) is not None:
            path, verb, operation = found
            named = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
            if name not in named:
                self.problems.append(f"{verb} {path} reads '{name}' of the query")

    def note_answer(self, handler: Any, body: bytes | None, media: str) -> None:
        if (found := self.operation(handler)) is None:
            return
        path, verb, operation = found
        status = str(handler.get_status())
        if status not in operation["responses"]:
            if int(status) < 400:
                self.problems.append(f"{verb} {path} answers {status}")
                return
            status = "default"
        content = operation["responses"][status].get("content", {})
        ranged = f"{media.partition('/')[0]}/*"
        if content and not {media, ranged} & set(content) and not handler._headers_written:
            self.problems.append(f"{verb} {path} answers {status} as {media}")
        elif "application/json" in content:
            self._check(path, verb, status, "application/json", json.loads(body or b"null"))
        elif not content and body:
            self.problems.append(f"{verb} {path} answers {status} with {body[:80]!r}")
        if status != "default":
            self.answered.add(f"{verb} {path}")

    def note_events(self, handler: Any, text: str) -> None:
        if (found := self.operation(handler)) is None:
            return
        path, verb, _ = found
        for block in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "event" in fields:
                event = {fields["event"]: json.loads(fields["data"])}
                self._check(path, verb, "200", "text/event-stream", event, is_event=True)
                self.answered.add(f"{verb} {path}")

    def _check(
        self, path: str, verb: str, status: str, media: str, answer: Any, *, is_event: bool = False
    ) -> None:
        for error in validator(path, verb, status, media).iter_errors(_shortened(answer)):
            # An event has the data of one name, the description those of all.
            if not (is_event and error.validator == "required" and not error.absolute_path):
                where = "/".join(map(str, error.absolute_path))
                self.problems.append(f"{verb} {path} {status} {where}: {error.message[:300]}")


def watch(patch: Callable[[type, str, Any], None], conformity: Conformity) -> None:
    """Let the routes of this process note what they do, until the test ends."""
    from sbx_jupyter.server.answers import SandboxRoute
    from sbx_jupyter.server.sockets import SandboxSocket
    from sbx_jupyter.server.streams import EventStream

    finish, send = SandboxRoute.finish, EventStream.send

    def noted_finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        chunk = args[0] if args else kwargs.get("chunk")
        media = kwargs.get("set_content_type", "application/json")  # as APIHandler.finish has it
        conformity.note_answer(self, chunk.encode() if isinstance(chunk, str) else chunk, media)
        return finish(self, *args, **kwargs)

    async def noted_send(self: Any, text: str) -> None:
        conformity.note_events(self, text)
        await send(self, text)

    def noted_query(kind: type[Any]) -> Any:
        read = kind.get_query_argument

        def noted(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            conformity.note_query(self, name)
            return read(self, name, *args, **kwargs)

        return noted

    patch(SandboxRoute, "finish", noted_finish)
    patch(EventStream, "send", noted_send)
    for kind in (SandboxRoute, SandboxSocket):
        patch(kind, "get_query_argument", noted_query(kind))


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in list(schema.values()):
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)


def _shortened(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _shortened(each) for name, each in answer.items()}
    if isinstance(answer, list):
        return [_shortened(each) for each in answer[:MOST_ITEMS]]
    return answer
