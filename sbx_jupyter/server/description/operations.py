"""The input and output of a route as its handler declares them: the source of the description.

A handler has ``bodies`` (verb to type), ``queries`` (verb to ``Parameter``), ``answers`` (verb to
one or more ``Answer``) and ``actions`` (verb to action, where that is not the default).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from sbx_jupyter.protocol import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON: Final = "application/json"
OCTETS: Final = "application/octet-stream"
IMAGE: Final = "image/*"
EVENT_STREAM: Final = "text/event-stream"

Flag = Literal["true", "false"]


class Failure(msgspec.Struct, kw_only=True, frozen=True):
    """An error: its Connect code, and a sentence for people."""

    code: Annotated[str, msgspec.Meta(extra_json_schema={"enum": sorted(connect.HTTP_STATUS)})]
    message: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, or a header that matters."""

    name: str
    text: str
    """A sentence about it."""

    kind: Any = str
    is_required: bool = False
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    kind: Any = None
    """The type of its content, a mapping of names to types for an object, ``None`` if empty."""

    status: int = 200
    media: str = JSON


EMPTY: Final = Answer(status=204)
DOWNLOAD: Final = Answer(bytes, media=OCTETS)
PARTIAL_DOWNLOAD: Final = (DOWNLOAD, Answer(bytes, 206, OCTETS), Answer(status=304))
SOCKET: Final = Answer(status=101)

PATH: Final = Parameter("path", "An absolute path, or one below the home directory.")
NEEDED_PATH: Final = Parameter(PATH.name, PATH.text, is_required=True)


def events(**kinds: Any) -> Answer:
    """A stream of server-sent events: the type of the data of each, by the name of the event."""
    return Answer(kinds, media=EVENT_STREAM)


def sparse(
    of: type[msgspec.Struct], name: str, /, *, keep: tuple[str, ...], **fields: Any
) -> type[msgspec.Struct]:
    """A record like ``of`` in which fields may be missing, except those in ``keep``.

    ``fields`` are added or have another type here; ``T | UnsetType`` for one that may be missing.
    Deployments other than the bundled engine tell less than it does.
    """
    own = {each.name: each for each in msgspec.structs.fields(of)}
    names = {each.name: each.encode_name for each in own.values()}
    needed = [(key, own[key].type) for key in keep if key not in fields]
    needed += [(key, kind) for key, kind in fields.items() if not _may_miss(kind)]
    missable = [key for key in own if key not in (*keep, *fields)]
    others = [(key, own[key].type | msgspec.UnsetType) for key in missable]
    others += [(key, kind) for key, kind in fields.items() if _may_miss(kind)]
    return msgspec.defstruct(
        name,
        [*needed, *((key, kind, msgspec.UNSET) for key, kind in others)],
        namespace={"__doc__": of.__doc__},
        rename=names,
        kw_only=True,
        frozen=True,
    )


def answers_of(handler: type[Any], verb: str) -> tuple[Answer, ...]:
    """The successful answers of a verb; empty if the handler does not declare them."""
    declared: Mapping[str, Answer | tuple[Answer, ...]] = getattr(handler, "answers", {})
    found = declared.get(verb, ())
    return (found,) if isinstance(found, Answer) else found


def _may_miss(kind: Any) -> bool:
    return msgspec.UnsetType in getattr(kind, "__args__", ())
