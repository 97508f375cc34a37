"""Decodes the lines that the interpreter sends while code runs (interface 5.2)."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from sbx_jupyter.client.code.execution import (
    FORMATS,
    Chart,
    Event,
    ExecutionError,
    OutputMessage,
    Result,
)
from sbx_jupyter.errors import ResourceExhaustedError, UnavailableError

MAX_LINE: Final = 64 * 1024 * 1024

_JSON_FORMATS: Final = frozenset({"json", "data"})


class LineDecoder:
    """Splits chunks into lines; the lines may come from hostile code."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that the chunk completes.

        Raises ``ResourceExhaustedError`` for a line of more than ``MAX_LINE`` bytes.
        """
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in complete:
            lines.append(b"".join([*self._parts, part]))
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE:
            raise ResourceExhaustedError(f"a single output has more than {MAX_LINE >> 20} MiB")
        return lines


def is_end(line: bytes) -> bool:
    """Whether a line says that the code has ended."""
    return line == b'{"type": "end_of_execution"}' or (
        len(line) < 100 and _object(line).get("type") == "end_of_execution"
    )


def decode_event(line: bytes) -> Event | None:
    """The event of a line, ``None`` for kinds that say nothing.

    Raises ``UnavailableError`` for something else than the interpreter sends.
    """
    fields = _object(line)
    match fields.get("type"):
        case "stdout" | "stderr" as kind:
            timestamp = _text(fields.get("timestamp"))
            return OutputMessage(_text(fields.get("text")), timestamp, error=kind == "stderr")
        case "result":
            return _result(fields)
        case "error":
            return ExecutionError(
                _text(fields.get("name")),
                _text(fields.get("value")),
                _text(fields.get("traceback")),
            )
        case "number_of_executions":
            count = fields.get("execution_count")
            return count if isinstance(count, int) else None
        case _:
            return None


def _result(fields: dict[str, Any]) -> Result:
    result = Result(is_main_result=fields.get("is_main_result") is True)
    for name in FORMATS:
        value = fields.get(name)
        if value is None:
            continue
        if name == "chart":
            value = Chart(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
        elif name not in _JSON_FORMATS:
            value = _text(value)
        setattr(result, name, value)
    if isinstance(extra := fields.get("extra"), dict):
        result.extra = cast("dict[str, Any]", extra)
    return result


def _object(line: bytes) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnavailableError(f"the interpreter sent something else than JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnavailableError("the interpreter sent something else than an object")
    return cast("dict[str, Any]", found)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
