"""Template references: ``[namespace/]alias-or-id[:tag]`` (interface 1.0.5)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sbx_jupyter.errors import InvalidArgumentError

NAMESPACE: Final = "local"
"""The only team of this engine: what comes before the slash of a full name."""

DEFAULT_TAG: Final = "default"

_NAME: Final = re.compile(r"[a-z0-9_-]{1,128}\Z")
_TAG: Final = re.compile(r"[a-z0-9_.-]{1,128}\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


class Reference(NamedTuple):
    """A parsed and normalised reference; ``tag`` is ``None`` for the default."""

    namespace: str | None
    name: str
    tag: str | None

    def __str__(self) -> str:
        namespace = f"{self.namespace}/" if self.namespace else ""
        return f"{namespace}{self.name}" + (f":{self.tag}" if self.tag else "")

    @property
    def without_tag(self) -> Reference:
        return self._replace(tag=None)


def parse_reference(text: str) -> Reference:
    """Parse a reference; raises ``InvalidArgumentError``."""
    given = text.strip().lower()
    path, colon, tag = given.partition(":")
    namespace, slash, name = path.rpartition("/")
    if not _NAME.match(name):
        raise _invalid(text, "a name has only letters, digits, - and _")
    if slash and not _NAME.match(namespace):
        raise _invalid(text, "a namespace has only letters, digits, - and _")
    if colon:
        try:
            tag = parse_tag(tag)
        except InvalidArgumentError as error:
            raise _invalid(text, error.message) from error
    return Reference(namespace or None, name, None if tag in ("", DEFAULT_TAG) else tag)


def parse_tag(text: str) -> str:
    """Normalise a tag; raises ``InvalidArgumentError``."""
    tag = text.strip().lower()
    if not _TAG.match(tag) or _UUID.match(tag):
        raise InvalidArgumentError(
            f"Invalid tag: '{text}': a tag has only letters, digits, -, _ and . and is no UUID"
        )
    return tag


def full_name(alias: str, tag: str | None = None) -> str:
    """``<namespace>/<alias>``, followed by ``:<tag>`` if there is a tag."""
    return str(Reference(NAMESPACE, alias, tag))


def _invalid(text: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Invalid template reference: '{text}': {why}")
