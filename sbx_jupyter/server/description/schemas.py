"""Makes the JSON schemas of the records that routes take and give."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_REF: Final = "#/components/schemas/"


class Schemas:
    """The schemas of types; those of records are ``components``, by their names.

    A field of a request may be left out if it has a default. An answer has every field, except
    those of records that leave out defaults, which therefore are never ``null``.
    """

    def __init__(self, taken: Iterable[Any], given: Iterable[Any]) -> None:
        """``taken`` are the types of bodies, ``given`` those of answers.

        A mapping of names to types stands for an object, ``None`` and ``bytes`` for no JSON.
        """
        bodies = list(dict.fromkeys(taken))
        kinds = [*bodies, *(kind for each in given for kind in _parts(each))]
        self._kinds = {_key(kind): kind for kind in kinds}
        schemas, self.components = msgspec.json.schema_components(
            list(self._kinds.values()), ref_template=f"{_REF}{{name}}"
        )
        self._schemas = dict(zip(self._kinds, schemas, strict=True))
        asked = _records(bodies)
        for name, record in _records(self._kinds.values()).items():
            if name not in asked:
                _make_answer(self.components[name], record)
        for component in self.components.values():
            # Whether the interpreter has removed the indentation depends on its version.
            if text := component.get("description"):
                component["description"] = inspect.cleandoc(text)

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type that was named before, or of an object of such types."""
        if isinstance(kind, Mapping):
            named = cast("Mapping[str, Any]", kind)
            return {
                "type": "object",
                "properties": {name: self.of(each) for name, each in named.items()},
                "required": list(named),
            }
        return self._schemas[_key(kind)]

    def simple(self, kind: Any) -> dict[str, Any]:
        """The schema of a type without records."""
        return msgspec.json.schema(kind)

    def needs_fields(self, kind: Any) -> bool:
        """Whether ``{}`` is no value of the record."""
        return bool(self.components[kind.__name__].get("required"))


def _parts(kind: Any) -> list[Any]:
    if kind is None or kind is bytes:
        return []
    if isinstance(kind, Mapping):
        named = cast("Mapping[str, Any]", kind)
        return [part for each in named.values() for part in _parts(each)]
    return [kind]


def _key(kind: Any) -> str:
    # Not every type can be hashed, and equal ones are not always the same.
    return kind.__qualname__ if isinstance(kind, type) and _is_record(kind) else repr(kind)


def _is_record(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct)


def _records(kinds: Iterable[Any]) -> dict[str, type[msgspec.Struct]]:
    """The records in some types, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    seen: set[int] = set()

    def visit(info: Any) -> None:
        if id(info) in seen:
            return
        seen.add(id(info))
        if isinstance(info, msgspec.inspect.StructType):
            found[info.cls.__name__] = info.cls
        for inner in _inside(info):
            visit(inner)

    # Kept in a list, since ids of what is gone are used again.
    infos = msgspec.inspect.multi_type_info(list(kinds))
    for info in infos:
        visit(info)
    return found


def _inside(info: Any) -> list[Any]:
    fields = [field.type for field in getattr(info, "fields", ())]
    inner = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type", "type")]
    return [*fields, *(getattr(info, "types", ())), *(each for each in inner if each is not None)]


def _make_answer(component: dict[str, Any], record: type[msgspec.Struct]) -> None:
    """Change the schema of a record, which is that of a request, to what an answer has."""
    properties = component["properties"]
    required: list[str] = []
    for field in msgspec.structs.fields(record):
        schema = properties[field.encode_name]
        schema.pop("default", None)
        if record.__struct_config__.omit_defaults:
            if field.required:
                required.append(field.encode_name)
            elif field.default is None and "anyOf" in schema:
                properties[field.encode_name] = _without_null(schema)
        elif field.default is not msgspec.UNSET:
            required.append(field.encode_name)
    component["required"] = required


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    rest = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return rest[0] if len(rest) == 1 else {**schema, "anyOf": rest}
