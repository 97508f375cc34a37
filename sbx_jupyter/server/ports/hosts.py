"""Host names for ports of sandboxes, one for each: ``c.SbxExtension.port_hosts``."""

from __future__ import annotations

import re
from typing import Final

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol.access import Route, parse_port, parse_sandbox_id

_LABEL_LIMIT: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_FIELDS: Final = {"{port}": "(?P<port>[0-9]{1,5})", "{id}": "(?P<id>[a-z0-9]+)"}


class PortHosts:
    """Makes and reads the host names of a pattern such as ``{port}-{id}.localhost``.

    The pattern may end in ``:8443`` where browsers reach the names at another port than Jupyter.
    """

    def __init__(self, pattern: str) -> None:
        """Raises ``InvalidArgumentError``."""
        name, _, port = pattern.partition(":")
        first, _, self.domain = name.partition(".")
        if sorted(re.findall(r"{\w*}", first)) != ["{id}", "{port}"] or not self.domain:
            raise InvalidArgumentError(
                f"{pattern!r} needs {{port}} and {{id}} in its first part, and a domain,"
                " as in {port}-{id}.localhost"
            )
        filled = first.replace("{port}", "65535").replace("{id}", "i" * 21)
        if not all(_LABEL.match(part) for part in (filled, *self.domain.split("."))):
            raise InvalidArgumentError(f"{pattern!r} does not make host names")
        if port and not (port.isascii() and port.isdigit()):
            raise InvalidArgumentError(f"{pattern!r} does not end in the number of a port")
        self.pattern = pattern
        self._first = first
        self._port = port
        label = re.escape(first)
        for field, group in _FIELDS.items():
            label = label.replace(re.escape(field), group)
        self.expression = rf"{label}\.{re.escape(self.domain)}"
        """Matches the names, without a port; with groups ``port`` and ``id``."""
        self._expression = re.compile(rf"{self.expression}\Z")

    def address(self, route: Route, host: str) -> str | None:
        """Host and port for a port of a sandbox.

        ``host`` is the one by which Jupyter was asked. ``None`` where the id makes no host name.
        """
        label = self._first.format(port=route.port, id=route.sandbox_id)
        if len(label) > _LABEL_LIMIT or not _LABEL.match(label):
            return None
        own = re.search(r":([0-9]+)\Z", host)
        port = self._port or (own[1] if own else "")
        return f"{label}.{self.domain}" + (f":{port}" if port else "")

    def find(self, name: str) -> Route | None:
        """The port of the sandbox that a host name stands for."""
        found = self._expression.match(name.lower())
        if found is None:
            return None
        try:
            return Route(parse_sandbox_id(found["id"]), parse_port(found["port"]))
        except SbxError:
            return None

    def is_beside(self, host: str) -> bool:
        """Whether cookies that a page there may set for a parent domain reach ``host``, too.

        Pages below ``.localhost`` may set none for ``localhost``: browsers take it for a
        top-level domain, like ``com``.
        """
        names = host.rpartition(":")[0] or host
        theirs, ours = self.domain.split("."), names.lower().split(".")
        return len(ours) > 1 and theirs[-2:] == ours[-2:] and len(theirs) > 1
