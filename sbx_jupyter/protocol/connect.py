"""The Connect protocol: content types, codes, errors, envelopes (interface 3.1 and 3.2)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.errors import InvalidArgumentError, ResourceExhaustedError, SbxError, error_for

if TYPE_CHECKING:
    from collections.abc import Iterator

UNARY_CONTENT_TYPE: Final = "application/json"
STREAM_CONTENT_TYPE: Final = "application/connect+json"
BINARY_CONTENT_TYPE: Final = "application/proto"
BINARY_STREAM_CONTENT_TYPE: Final = "application/connect+proto"

MESSAGE_FLAG: Final = 0x00
COMPRESSED_FLAG: Final = 0x01
END_STREAM_FLAG: Final = 0x02
HEADER_SIZE: Final = 5
MAX_MESSAGE_SIZE: Final = 64 * 1024 * 1024

HTTP_STATUS: Final[dict[str, int]] = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}

_CODE_OF_STATUS: Final[dict[int, str]] = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "already_exists",
    413: "resource_exhausted",
    415: "invalid_argument",
    429: "resource_exhausted",
    499: "canceled",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
    507: "resource_exhausted",
}

_header = struct.Struct(">BI")


def encode_envelope(payload: bytes, flags: int = MESSAGE_FLAG) -> bytes:
    """One envelope: flag byte, big-endian length, payload."""
    return _header.pack(flags, len(payload)) + payload


def envelope_header(size: int, flags: int = MESSAGE_FLAG) -> bytes:
    """The five bytes before a payload of ``size`` bytes, for writers that join without copying."""
    return _header.pack(flags, size)


def encode_end_of_stream(error: SbxError | None = None) -> bytes:
    """The envelope that ends every stream, with the error if there was one."""
    body: dict[str, object] = {} if error is None else {"error": error_to_json(error)}
    return encode_envelope(msgspec.json.encode(body), END_STREAM_FLAG)


def error_to_json(error: SbxError) -> dict[str, str]:
    """``{"code", "message"}`` of an error."""
    return {"code": error.code, "message": error.message}


def error_from_json(raw: bytes, status: int) -> SbxError:
    """The error in a response body: by its Connect code, else by the HTTP status.

    Accepts ``{"code": "not_found", ...}``, ``{"code": 404, ...}`` and text.
    """
    code = _CODE_OF_STATUS.get(status, "internal" if status >= 500 else "unknown")
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.ValidationError:
        return error_for(code, f"HTTP status {status}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return error_for(code, raw.decode("utf-8", "replace").strip() or f"HTTP status {status}")
    stated = body.get("code")
    message = str(body.get("message") or f"HTTP status {status}")
    return error_for(stated if isinstance(stated, str) and stated in HTTP_STATUS else code, message)


class EnvelopeDecoder:
    """Splits a byte stream, in chunks of any size, into envelopes.

    Raises ``ResourceExhaustedError`` for a message above ``limit`` bytes as soon as its header is
    read, and ``InvalidArgumentError`` for flags that are not supported.
    """

    def __init__(self, limit: int = MAX_MESSAGE_SIZE) -> None:
        self._limit = limit
        self.takes_compressed = False
        """Whether envelopes may have ``COMPRESSED_FLAG``; their payload is yielded as it is."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield ``(flags, payload)`` of each envelope that ``chunk`` completes."""
        self._buffer += chunk
        position = 0
        try:
            while len(self._buffer) - position >= HEADER_SIZE:
                flags, size = _header.unpack_from(self._buffer, position)
                self._check(flags, size)
                end = position + HEADER_SIZE + size
                if len(self._buffer) < end:
                    break
                payload = bytes(self._buffer[position + HEADER_SIZE : end])
                position = end
                yield flags, payload
        finally:
            del self._buffer[:position]

    def finish(self) -> None:
        """Check that the stream ended after an envelope; raises ``InvalidArgumentError``."""
        if self._buffer:
            raise InvalidArgumentError("the stream ended inside an envelope")

    def _check(self, flags: int, size: int) -> None:
        known = END_STREAM_FLAG | (COMPRESSED_FLAG if self.takes_compressed else 0)
        if flags & ~known:
            raise InvalidArgumentError(f"envelope flags 0x{flags:02x} are not supported")
        if size > self._limit:
            raise ResourceExhaustedError(
                f"message of {size} bytes is larger than the limit of {self._limit} bytes"
            )


def only_message(decoder: EnvelopeDecoder, body: bytes) -> tuple[int, bytes]:
    """Flags and payload of the only message of a request; raises ``InvalidArgumentError``."""
    found = [item for item in decoder.feed(body) if not item[0] & END_STREAM_FLAG]
    decoder.finish()
    if len(found) != 1:
        raise InvalidArgumentError("the request must be exactly one message")
    return found[0]
