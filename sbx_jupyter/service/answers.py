"""Converts errors to HTTP responses on each surface: status, body, or a connection reset."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.sandboxes.idempotency import KeyReusedError
from sbx_jupyter.errors import NoSpaceError, SbxError

if TYPE_CHECKING:
    from tornado.iostream import IOStream

JSON: Final = "application/json"
JSON_UTF8: Final = "application/json; charset=utf-8"

_PLATFORM_STATUS: Final[dict[str, int]] = {
    "not_found": 404,
    "invalid_argument": 400,
    "out_of_range": 400,
    "aborted": 409,
    "already_exists": 409,
    "failed_precondition": 409,
    "resource_exhausted": 429,
    "unavailable": 503,
    "permission_denied": 403,
    "unauthenticated": 401,
    "deadline_exceeded": 504,
    "unimplemented": 501,
    "canceled": 499,
}

_RUNTIME_STATUS: Final[dict[str, int]] = {
    **_PLATFORM_STATUS,
    "failed_precondition": 400,
    "unavailable": 502,
}


class HttpError(SbxError):
    """An error whose HTTP status has no Connect code (405, 406, 413, 415, 422)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def platform_status(error: SbxError) -> int:
    """The HTTP status of an error of the platform API (interface 1.0.4)."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, KeyReusedError):
        return 422
    if isinstance(error, NoSpaceError):
        return 507
    return _PLATFORM_STATUS.get(error.code, 500)


def runtime_status(error: SbxError) -> int:
    """The HTTP status of an error of the runtime's routes that are not RPCs (interface 4.1)."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, NoSpaceError):
        return 507
    return _RUNTIME_STATUS.get(error.code, 500)


def error_body(status: int, message: str) -> bytes:
    """``{"code", "message"}``, with the status as the code."""
    return msgspec.json.encode({"code": status, "message": message})


def reset(stream: IOStream | None) -> None:
    """Close a connection with a TCP reset, so that a partial stream does not look complete."""
    if stream is None or stream.closed() or stream.socket is None:
        return
    linger = struct.pack("ii", 1, 0)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    stream.close()
