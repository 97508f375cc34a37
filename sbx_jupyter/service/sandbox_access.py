"""Checks that a request may use a sandbox's runtime: token or signature (interface 4.1, 4.2)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.errors import InvalidArgumentError, UnauthenticatedError
from sbx_jupyter.protocol import access

if TYPE_CHECKING:
    from sbx_jupyter.service.context import RoutedRequest

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")

UNAUTHORIZED = (
    "unauthorized access, please provide a valid access token or method signing if supported"
)


class TokenError(UnauthenticatedError):
    """The access token or signature of a request is missing or wrong."""


class Signature(NamedTuple):
    """The signature in the query of a file request and what it covers."""

    text: str
    path: str
    operation: str
    username: str
    expiration: int | None

    @classmethod
    def of(cls, request: RoutedRequest) -> Signature | None:
        """The signature of a request; ``None`` if it has none or its expiration is malformed."""
        text = _query(request, "signature")
        if not text:
            return None
        expiration = _query(request, "signature_expiration")
        if expiration and not (expiration.isascii() and expiration.isdigit()):
            return None
        return cls(
            text=text,
            path=_query(request, "path"),
            operation="write" if request.method == "POST" else "read",
            username=_query(request, "username"),
            expiration=int(expiration[:18]) if expiration else None,
        )

    def is_made_with(self, token: str) -> bool:
        """Whether ``token`` gives this signature; compares in constant time."""
        try:
            expected = access.sign(self.path, self.operation, self.username, token, self.expiration)
        except UnicodeEncodeError:
            return False
        return access.matches(self.text, expected)

    def check(self, token: str) -> None:
        """Raise ``TokenError`` unless ``token`` gives this signature and it has not expired."""
        if not self.is_made_with(token):
            raise TokenError("invalid signature")
        if self.expiration is not None and self.expiration < int(time.time()):
            raise TokenError("signature is already expired")


def check_expiration(request: RoutedRequest) -> None:
    """Raise ``InvalidArgumentError`` unless ``signature_expiration`` is a whole number."""
    text = _query(request, "signature_expiration")
    if text and not _INTEGER.match(text):
        raise InvalidArgumentError("signature_expiration must be a whole number of seconds")


def check_token(request: RoutedRequest, token: str | None) -> None:
    """Raise ``TokenError`` unless the header carries the access token, as most routes demand."""
    if not access.is_granted(request.headers.get(access.ACCESS_TOKEN_HEADER), token):
        raise TokenError(UNAUTHORIZED)


def check_file_access(request: RoutedRequest, token: str | None) -> None:
    """Check the access to ``/files``: by the header if it is there, else by the signature.

    Raises ``TokenError`` with the texts of interface 4.1.
    """
    if token is None:
        return
    given = request.headers.get(access.ACCESS_TOKEN_HEADER)
    if given:
        if not access.is_granted(given, token):
            raise TokenError("access token present in header but does not match")
        return
    if not _query(request, "signature"):
        raise TokenError("missing signature query parameter")
    signature = Signature.of(request)
    if signature is None:
        raise TokenError("invalid signature")
    signature.check(token)


def _query(request: RoutedRequest, name: str) -> str:
    values = request.query_arguments.get(name)
    return values[-1].decode("utf-8", "surrogateescape") if values else ""
