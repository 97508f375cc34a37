"""Kernel messages as the interpreter's events (interface 5.2)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMBERS: Final = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
    "e2b/json": "plain_json",
}

Event = dict[str, Any]

PIECE: Final = 1024 * 1024
"""Characters of output in one event."""

NOTEBOOK_HEADER: Final = "Sbx-For-Notebook"
"""Set by clients that show results as a notebook does: see ``for_program``."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_LINE_ENDS: Final = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))

KEEPALIVE: Final[Event] = {"type": "keepalive"}
END: Final[Event] = {"type": "end_of_execution"}


def event_of(message: dict[str, Any]) -> Event | None:
    """The event that a message of the output channel stands for, if any."""
    content = message["content"]
    match message["msg_type"]:
        case "execute_input":
            return {
                "type": "number_of_executions",
                "execution_count": content["execution_count"],
            }
        case "stream":
            return {
                "type": "stderr" if content["name"] == "stderr" else "stdout",
                "text": content["text"],
                "timestamp": _timestamp(message),
            }
        case "execute_result" | "display_data":
            return result(content["data"], is_main=message["msg_type"] == "execute_result")
        case "error":
            return error(content["ename"], content["evalue"], "\n".join(content["traceback"]))
        case _:
            return None


def is_sound(message: dict[str, Any]) -> bool:
    """Whether a message has what ``event_of`` looks at; code can send others as its kernel."""
    content: Any = message["content"]
    if not isinstance(content, dict):
        return False
    fields = cast("dict[str, Any]", content)
    match message["msg_type"]:
        case "execute_input":
            return isinstance(fields.get("execution_count"), int)
        case "stream":
            return isinstance(fields.get("text"), str) and "name" in fields
        case "execute_result" | "display_data":
            return isinstance(fields.get("data"), dict)
        case "error":
            return _are_texts([fields.get("ename"), fields.get("evalue")]) and _are_texts(
                fields.get("traceback")
            )
        case "status":
            return isinstance(fields.get("execution_state"), str)
        case _:
            return True


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, str) for value in cast("list[Any]", values)
    )


def pieces(event: Event) -> Iterator[Event]:
    """The event; long output as several events, so that no line of the answer is enormous.

    A kernel that is not read from for a while puts all that was printed into one message.
    """
    if event["type"] not in ("stdout", "stderr") or len(event["text"]) <= PIECE:
        yield event
        return
    for start in range(0, len(event["text"]), PIECE):
        yield event | {"text": event["text"][start : start + PIECE]}


def for_notebook(event: Event) -> Event:
    """The event for a client that shows it as a notebook does, from text and with colours."""
    event.pop("plain_json", None)
    return event


def for_program(event: Event) -> Event:
    """The event for any other client: lists and dicts as JSON too, tracebacks without colours."""
    plain = event.pop("plain_json", None)
    if plain is not None:
        event.setdefault("json", plain)
    if event["type"] == "error":
        event["traceback"] = _COLOURS.sub("", event["traceback"])
    return event


def encode(event: Event) -> bytes:
    """An event as a line of the answer, in one piece for clients that know more ends of lines."""
    try:
        # Twice as fast as with escapes, and shorter, where much is printed.
        text = json.dumps(event, default=str, ensure_ascii=False)
        for end, escaped in _LINE_ENDS:
            if end in text:
                text = text.replace(end, escaped)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # halves of characters, which only escapes can say
        return json.dumps(event, default=str).encode() + b"\n"


def is_idle(message: dict[str, Any]) -> bool:
    """Whether the kernel says that it has finished."""
    return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"


def result(bundle: dict[str, Any], *, is_main: bool) -> Event:
    """A result with one member per MIME type; the unknown ones under ``extra``."""
    event: Event = {"type": "result", "is_main_result": is_main}
    extra: dict[str, Any] = {}
    for mime, value in bundle.items():
        if value is None:
            continue
        if (member := MEMBERS.get(mime)) is None:
            extra[mime] = value
        elif mime.startswith("image/") and isinstance(value, str):
            event[member] = value.strip()
        else:
            event[member] = value
    if isinstance(text := event.get("text"), str):
        event["text"] = _unquoted(text)
    if extra:
        event["extra"] = extra
    return event


def error(name: str, value: str, traceback: str = "") -> Event:
    """The end of an execution that failed."""
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def notice(text: str) -> Event:
    """A line of our own among what the code printed."""
    return {"type": "stderr", "text": text, "timestamp": datetime.now(UTC).isoformat()}


def printed(text: str) -> dict[str, Any]:
    """The message of a kernel that would be such a line."""
    return {
        "msg_type": "stream",
        "header": {"date": datetime.now(UTC)},
        "content": {"name": "stderr", "text": text},
    }


def _unquoted(text: str) -> str:
    """Remove one matching pair of quotes, with which Python shows a string."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _timestamp(message: dict[str, Any]) -> str:
    date = message["header"]["date"]
    return date if isinstance(date, str) else date.isoformat()
