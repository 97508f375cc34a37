"""Named connections: which deployments a person configured, and the key to each."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.errors import InvalidArgumentError, UnauthenticatedError, see

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL: Final = "local"
"""The name of the engine on this machine, which is always offered unless it is switched off."""

LEGACY: Final = "remote"
"""The name of the deployment that ``c.SbxExtension.api_url`` names."""

_KEY_FILE_LIMIT: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class NamedConnection:
    """A deployment under a name; without ``api_url`` and ``domain`` it is the local engine.

    The key is ``api_key``, else the content of ``api_key_file``, else the value of the environment
    variable ``api_key_env``.
    """

    name: str = LOCAL
    api_url: str = ""
    sandbox_url: str = ""
    domain: str = ""
    api_key: str = field(default="", repr=False)
    api_key_file: str = ""
    api_key_env: str = ""
    ca_file: str = ""

    @property
    def is_local(self) -> bool:
        return not self.api_url and not self.domain

    @property
    def host(self) -> str | None:
        """Host and port of the deployment, without a user name and password in its address."""
        if self.is_local:
            return None
        return urlsplit(self.api_url or f"https://api.{self.domain}").netloc.rpartition("@")[2]

    def resolve(self) -> ConnectionConfig:
        """Return the addresses and the key of a remote deployment.

        Raises ``UnauthenticatedError`` when no key is configured or its file cannot be used,
        ``InvalidArgumentError`` for a malformed address or an unusable ``ca_file``.
        """
        return ConnectionConfig(
            api_url=self.api_url or f"https://api.{self.domain}",
            api_key=self.read_key(),
            sandbox_url=self.sandbox_url or None,
            domain=self.domain or None,
            ca_file=self.ca_file or None,
        )

    def read_key(self) -> str:
        """Return the API key; raises ``UnauthenticatedError`` with what to configure."""
        if self.api_key:
            return self.api_key
        if self.api_key_file:
            return read_key_file(Path(self.api_key_file))
        if self.api_key_env and (key := os.environ.get(self.api_key_env)):
            return key
        asked = "api_key, api_key_file or api_key_env"
        if self.name == LEGACY:
            raise UnauthenticatedError(
                "c.SbxExtension.api_url is set, but neither c.SbxExtension.api_key nor E2B_API_KEY"
                f"{see('connections')}"
            )
        if self.api_key_env:
            asked = f"the environment variable {self.api_key_env}"
        raise UnauthenticatedError(
            f"the connection '{self.name}' has no key: set {asked}{see('connections')}"
        )


def read_key_file(path: Path) -> str:
    """Return the API key in ``path``.

    Raises ``UnauthenticatedError`` when the file cannot be read, is empty or too large, or when
    somebody other than its owner may read or change it.
    """
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(_KEY_FILE_LIMIT + 1)
    except OSError as error:
        raise UnauthenticatedError(f"cannot read the key file {path}: {error.strerror}") from None
    if status.st_uid not in (os.getuid(), 0):
        raise UnauthenticatedError(f"the key file {path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise UnauthenticatedError(
            f"the key file {path} can be read or changed by other users; run: chmod 600 {path}"
        )
    try:
        key = content.decode("ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not key or len(content) > _KEY_FILE_LIMIT or any(c.isspace() for c in key):
        raise UnauthenticatedError(f"the key file {path} does not hold one API key")
    return key


def parse_connections(given: Mapping[str, Mapping[str, str]]) -> dict[str, NamedConnection]:
    """Check configured connections; raises ``InvalidArgumentError`` with the name at fault."""
    known = {each.name for each in fields(NamedConnection)} - {"name"}
    parsed: dict[str, NamedConnection] = {}
    for name, settings in given.items():
        if not name or not name.isprintable() or "/" in name:
            raise InvalidArgumentError(f"{name!r} cannot be the name of a connection")
        if name == LOCAL:
            raise InvalidArgumentError("'local' is the name of the engine on this machine")
        if unknown := sorted(set(settings) - known):
            raise InvalidArgumentError(
                f"the connection '{name}' has no setting '{unknown[0]}';"
                f" it has {', '.join(sorted(known))}"
            )
        urls = {
            key: settings[key].rstrip("/")
            for key in ("api_url", "sandbox_url")
            if settings.get(key)
        }
        connection = NamedConnection(name=name, **{**settings, **urls})
        if connection.is_local:
            raise InvalidArgumentError(f"the connection '{name}' needs an api_url or a domain")
        for url in urls.values():
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
                raise InvalidArgumentError(
                    f"the connection '{name}': {url!r} is not an http or https address"
                )
        parsed[name] = connection
    return parsed


def collect_connections(
    legacy: Mapping[str, str], connections: Mapping[str, Mapping[str, str]], *, offer_local: bool
) -> dict[str, NamedConnection]:
    """Return the connections of a configuration, the one to use by default first.

    ``legacy`` are the settings ``api_url``, ``sandbox_url``, ``domain``, ``api_key`` and
    ``ca_file`` of ``c.SbxExtension``. Raises ``InvalidArgumentError``.
    """
    collected: dict[str, NamedConnection] = {}
    if legacy.get("api_url"):
        collected[LEGACY] = NamedConnection(name=LEGACY, **legacy)
    if offer_local or not (collected or connections):
        collected[LOCAL] = NamedConnection()
    return collected | parse_connections(connections)
