"""Gives git a user name and password for one command: in variables, not in arguments or files."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from sbx_jupyter.errors import InvalidArgumentError

USERNAME: Final = "SBX_GIT_USERNAME"
PASSWORD: Final = "SBX_GIT_PASSWORD"

_HELPER: Final = (
    f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    f'"${USERNAME}" "${PASSWORD}"; }}; f'
)


def check(username: str | None, password: str | None) -> bool:
    """Whether there are credentials; raises ``InvalidArgumentError`` for half of them."""
    if (username is None) != (password is None):
        raise InvalidArgumentError("give both a username and a password, or none")
    for value in (username, password):
        if value is not None and any(each in value for each in "\0\r\n"):
            raise InvalidArgumentError("a username and a password are each one line")
    return username is not None


def variables(username: str | None, password: str | None, url: str | None = None) -> dict[str, str]:
    """Variables of a git command that may use the credentials, for the host of ``url`` only.

    Helpers that are configured are not asked. Raises ``InvalidArgumentError`` for half of the
    credentials, and for a URL that is not HTTP.
    """
    if not check(username, password):
        return {}
    section = "credential"
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgumentError("a username and a password are for http:// and https://")
        section = f"credential.{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return {
        USERNAME: username or "",
        PASSWORD: password or "",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": f"{section}.helper",
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": f"{section}.helper",
        "GIT_CONFIG_VALUE_1": _HELPER,
    }
