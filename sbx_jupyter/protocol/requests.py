"""Reads requests in proto3 JSON exactly as the interface says: no more, no less (interface 3.1).

Answers of servers are read by ``messages.decode``, which is faster and takes more.
"""

from __future__ import annotations

import binascii
import json
import re
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import runtime as rt

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ONE_OF: Final = frozenset({rt.ProcessSelector, rt.ProcessInput, rt.StreamInputRequest})
"""Records of which at most one member may be set."""

_UINT32: Final = 1 << 32
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?\Z")
_URL_ALPHABET: Final = str.maketrans("-_", "+/")
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")


def decode(kind: type[T], raw: bytes) -> T:
    """The request in ``raw``; raises ``InvalidArgumentError`` with a sentence on what is wrong.

    Both spellings of a name are taken, ``null`` stands for unset, and unknown names are ignored.
    """
    try:
        return _reader(kind)(_json.decode(raw.decode()))
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"cannot decode message: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# An object becomes a tuple of its pairs, so that a name that comes twice can be seen.
_json: Final = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse_constant)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """The function that turns a value of decoded JSON into ``kind``, or raises ``ValueError``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _record_reader(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return _reader(inner)
    if origin is list:
        return _list_reader(_reader(arguments[0]))
    if origin is dict:
        return _map_reader(_reader(arguments[1]))
    raise TypeError(f"requests have no fields of type {kind}")


def _record_reader(kind: type[msgspec.Struct]) -> Callable[[Any], Any]:
    fields: dict[str, tuple[str, Callable[[Any], Any]]] = {}
    for field in msgspec.structs.fields(kind):
        fields[field.name] = fields[field.encode_name] = (field.name, _reader(field.type))

    def read(value: Any) -> Any:
        found: dict[str, Any] = {}
        seen: set[str] = set()
        for spelling, member in _pairs(value):
            if spelling not in fields:
                continue
            name, read_member = fields[spelling]
            if name in seen:
                raise ValueError(f"'{spelling}' is given twice")
            seen.add(name)
            if member is not None:
                try:
                    found[name] = read_member(member)
                except ValueError as error:
                    raise ValueError(f"{spelling}: {error}") from None
        if kind in ONE_OF and len(found) > 1:
            raise ValueError(f"only one of {', '.join(sorted(found))} may be given")
        return kind(**found)

    return read


def _list_reader(read_item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("a list is expected")
        return [read_item(item) for item in cast("list[Any]", value)]

    return read


def _map_reader(read_item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        found: dict[str, Any] = {}
        for name, item in _pairs(value):
            if name in found:
                raise ValueError(f"'{name}' is given twice")
            found[_text(name)] = read_item(item)
        return found

    return read


def _pairs(value: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(value, tuple):
        raise ValueError("an object is expected")
    return cast("tuple[tuple[str, Any], ...]", value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text is expected")
    if not value.isascii():
        value.encode()  # raises for half of a surrogate pair
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is expected")
    return value


def _uint32(value: Any) -> int:
    """A whole number, perhaps as text and with a fraction of zeros."""
    number = value
    if isinstance(value, str) and _NUMBER.match(value):
        number = int(value) if value.lstrip("-").isdigit() else float(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _UINT32:
        raise ValueError("a whole number from 0 to 4294967295 is expected")
    return number


def _enumeration(value: Any) -> str | int:
    """The name or the number of a value; which of them exist is for the method to say."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("the name or the number of a value is expected")
    return _text(value) if isinstance(value, str) else value


def _octets(value: Any) -> bytes:
    """Base64 in the standard or the URL alphabet, with or without padding."""
    text = _text(value)
    if "\n" in text or "\r" in text:
        text = text.translate(_LINE_ENDS)
    if "-" in text or "_" in text:
        if "+" in text or "/" in text:
            raise ValueError("base64 mixes two alphabets")
        text = text.translate(_URL_ALPHABET)
    if (lacking := -len(text) % 4) and "=" not in text:
        text += "=" * lacking
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from None


_SCALARS: Final[dict[Any, Callable[[Any], Any]]] = {
    str: _text,
    bool: _boolean,
    bytes: _octets,
    rt.Uint32: _uint32,
    rt.Enumeration: _enumeration,
}
