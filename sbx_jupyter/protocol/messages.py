"""Writes messages as proto3 JSON, and reads answers leniently (interface 3.1)."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from sbx_jupyter.errors import InvalidArgumentError

T = TypeVar("T")

encode = msgspec.json.encode


class Message(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True, gc=False
):
    """Base of the runtime API's messages: camelCase names, defaults left out."""


def decode(kind: type[T], raw: bytes) -> T:
    """Decode the answer of a server; requests are read by ``requests.decode``.

    Accepts snake_case names, numbers as text, ``null`` for unset and unknown fields. Raises
    ``InvalidArgumentError`` with a sentence that names the field.
    """
    try:
        if b"_" in raw or b"null" in raw:
            return msgspec.convert(_normalise(msgspec.json.decode(raw), kind), kind, strict=False)
        return msgspec.json.decode(raw, type=kind, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as e:
        raise InvalidArgumentError(f"cannot decode message: {e}") from e


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """The wire name and the type of each field, by both of its spellings."""
    found: dict[str, tuple[str, Any]] = {}
    for field in msgspec.structs.fields(kind):
        found[field.name] = found[field.encode_name] = (field.encode_name, field.type)
    return found


@cache
def _inner(kind: Any) -> type[msgspec.Struct] | None:
    """The record inside ``X``, ``X | None`` or ``list[X]``, if there is one."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if typing.get_origin(kind) in (typing.Union, types.UnionType, list, tuple):
        for argument in typing.get_args(kind):
            if (found := _inner(argument)) is not None:
                return found
    return None


def _normalise(value: Any, kind: Any) -> Any:
    record = _inner(kind)
    if record is None:
        return value
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_normalise(item, kind) for item in items]
    if not isinstance(value, dict):
        return value
    known = _fields(record)
    result: dict[str, Any] = {}
    for name, item in cast("dict[str, Any]", value).items():
        if name not in known or item is None:
            continue
        wire_name, inner_kind = known[name]
        result[wire_name] = _normalise(item, inner_kind)
    return result
