"""Framing of the messages of a call: Connect unary, Connect stream or gRPC-Web (3.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol import connect
from sbx_jupyter.service.runtime.codecs import BINARY_CODEC, JSON_CODEC, Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tornado.httputil import HTTPHeaders

TRAILER_FLAG: Final = 0x80

_GRPC_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])\Z")
_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_GRPC_STATUS: Final = {
    code: number
    for number, code in enumerate(
        (
            "canceled",
            "unknown",
            "invalid_argument",
            "deadline_exceeded",
            "not_found",
            "already_exists",
            "permission_denied",
            "resource_exhausted",
            "failed_precondition",
            "aborted",
            "out_of_range",
            "unimplemented",
            "internal",
            "unavailable",
            "data_loss",
            "unauthenticated",
        ),
        start=1,
    )
}


@dataclass(frozen=True, slots=True)
class Framing:
    """One way to carry messages, with the codec of one content type."""

    content_type: str
    codec: Codec
    is_enveloped: bool
    """Whether messages are in envelopes; errors are then sent with status 200, at the end."""
    coding_header: str
    timeout_of: Callable[[HTTPHeaders], float | None]
    """Seconds that the call may take; ``None`` for no limit; raises ``InvalidArgumentError``."""
    end_of_stream: Callable[[SbxError | None], bytes]


def connect_timeout(headers: HTTPHeaders) -> float | None:
    """Seconds in ``Connect-Timeout-Ms``; ``None`` for no limit; raises ``InvalidArgumentError``."""
    text = headers.get("Connect-Timeout-Ms", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise InvalidArgumentError("Connect-Timeout-Ms must be a whole number of milliseconds")
    return int(text) / 1000 or None


def grpc_timeout(headers: HTTPHeaders) -> float | None:
    """Seconds in ``Grpc-Timeout``; ``None`` for no limit; raises ``InvalidArgumentError``."""
    text = headers.get("Grpc-Timeout", "")
    if not text:
        return None
    match = _GRPC_TIMEOUT.match(text)
    if match is None:
        raise InvalidArgumentError("Grpc-Timeout must be up to 8 digits and a unit")
    return int(match[1]) * _UNITS[match[2]] or None


def encode_trailers(error: SbxError | None) -> bytes:
    """The last envelope of a gRPC-Web answer: the status and the message of the error."""
    lines = f"grpc-status: {_GRPC_STATUS.get(error.code, 2) if error else 0}\r\n"
    if error is not None:
        # Line ends are encoded too, so that a message cannot add a trailer of its own.
        lines += f"grpc-message: {quote(error.message, safe=_PLAIN)}\r\n"
    return connect.encode_envelope(lines.encode(), TRAILER_FLAG)


_PLAIN: Final = "".join(chr(number) for number in range(0x20, 0x7F) if chr(number) != "%")


def _connect(content_type: str, codec: Codec, *, is_stream: bool) -> Framing:
    return Framing(
        content_type,
        codec,
        is_enveloped=is_stream,
        coding_header="Connect-Content-Encoding" if is_stream else "Content-Encoding",
        timeout_of=connect_timeout,
        end_of_stream=connect.encode_end_of_stream,
    )


def _grpc_web(content_type: str, codec: Codec) -> Framing:
    return Framing(
        content_type,
        codec,
        is_enveloped=True,
        coding_header="Grpc-Encoding",
        timeout_of=grpc_timeout,
        end_of_stream=encode_trailers,
    )


_GRPC_WEB: Final = (
    _grpc_web("application/grpc-web", BINARY_CODEC),
    _grpc_web("application/grpc-web+proto", BINARY_CODEC),
    _grpc_web("application/grpc-web+json", JSON_CODEC),
)
UNARY_JSON: Final = _connect(connect.UNARY_CONTENT_TYPE, JSON_CODEC, is_stream=False)
_UNARY: Final = (
    UNARY_JSON,
    _connect(connect.BINARY_CONTENT_TYPE, BINARY_CODEC, is_stream=False),
    *_GRPC_WEB,
)
STREAM_JSON: Final = _connect(connect.STREAM_CONTENT_TYPE, JSON_CODEC, is_stream=True)
_STREAM: Final = (
    STREAM_JSON,
    _connect(connect.BINARY_STREAM_CONTENT_TYPE, BINARY_CODEC, is_stream=True),
    *_GRPC_WEB,
)


def find_framing(content_type: str, *, is_stream: bool) -> Framing | None:
    """The framing for the content type of a request; ``None`` for an unknown one."""
    for framing in _STREAM if is_stream else _UNARY:
        if framing.content_type == content_type:
            return framing
    return None


def content_types(*, is_stream: bool) -> str:
    """All content types of a method, for ``Accept-Post``."""
    return ", ".join(framing.content_type for framing in (_STREAM if is_stream else _UNARY))
