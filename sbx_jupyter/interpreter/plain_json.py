"""Lists and dicts of Python as JSON, where it can say what they hold."""

from __future__ import annotations

import dataclasses
import enum
import math
import uuid
from datetime import date, datetime, time
from typing import Any, Final, cast

LARGEST: Final = 1_000_000
"""Values and characters of what is still sent as JSON beside its text."""
_DEEPEST: Final = 100
_MOST_BITS: Final = 64


class _NotJsonError(Exception):
    """JSON has no value for this one, or it is too large."""


def as_json(value: Any) -> Any:
    """A list or dict in the types of JSON; ``None`` if JSON cannot say it or it is too large."""
    try:
        return _Converter().convert(value)
    except _NotJsonError:
        return None


class _Converter:
    def __init__(self) -> None:
        self._room = LARGEST

    def convert(self, value: Any, depth: int = 0) -> Any:
        """Raises ``_NotJsonError``."""
        self._take(len(value) if isinstance(value, str) else 1)
        if depth > _DEEPEST:
            raise _NotJsonError
        if isinstance(value, enum.Enum):
            value = value.value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value)
            return {self._key(key): self.convert(entries[key], depth + 1) for key in entries}
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            return [self.convert(item, depth + 1) for item in items]
        return self._convert_object(value, depth)

    def _convert_object(self, value: Any, depth: int) -> Any:
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, uuid.UUID):
            return str(value)
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            self._take(value.size)
            return self.convert(value.tolist(), depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: self.convert(getattr(value, name), depth + 1) for name in names}
        raise _NotJsonError

    def _key(self, key: Any) -> str:
        name = self.convert(key)
        if isinstance(name, str):
            return name
        if isinstance(name, bool):
            return "true" if name else "false"
        if name is None:
            return "null"
        if isinstance(name, int | float):
            return str(name)
        raise _NotJsonError

    def _take(self, amount: int) -> None:
        self._room -= amount
        if self._room < 0:
            raise _NotJsonError


def _integer(value: int) -> int:
    if value.bit_length() > _MOST_BITS:
        raise _NotJsonError
    return int(value)
