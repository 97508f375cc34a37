"""Messages of a kernel as frames, and frames as the bytes of one WebSocket message."""

from __future__ import annotations

import hashlib
import hmac
import struct

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")
CUT = "sbx_cut"
"""The type of a message that says how many bytes of output are left out at its place."""
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes; a larger message of the kernel never leaves the sandbox, printed text goes in pieces."""
_EACH = 512
"""Bytes counted for a message besides its own, so that short ones have a limit as well."""
_DELIMITER = b"<IDS|MSG>"
_LENGTH = struct.Struct(">I")


def pack(channel: int, frames: list[bytes]) -> bytes:
    """One message of a channel as bytes."""
    pieces = [bytes([channel])]
    for frame in frames:
        pieces += (_LENGTH.pack(len(frame)), frame)
    return b"".join(pieces)


def unpack(raw: bytes, most: int | None = None) -> tuple[int, list[bytes]]:
    """The channel and the frames of a message.

    Raises ``ValueError`` for anything else, and for more frames than ``most``.
    """
    if not raw or raw[0] >= len(CHANNELS):
        raise ValueError("not a message of a channel")
    frames: list[bytes] = []
    at = 1
    while at < len(raw):
        if at + _LENGTH.size > len(raw):
            raise ValueError("a length is cut")
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if at + length > len(raw):
            raise ValueError("a frame is cut")
        if len(frames) == most:
            raise ValueError("too many frames")
        frames.append(raw[at : at + length])
        at += length
    return raw[0], frames


def parts(frames: list[bytes]) -> list[bytes]:
    """Header, parent header, metadata and content of a message; fewer of what is none."""
    at = frames.index(_DELIMITER) if _DELIMITER in frames else len(frames)
    return frames[at + 2 : at + 6]


def signed(fields: list[bytes], key: bytes) -> list[bytes]:
    """A message of these four fields with its signature, as frames."""
    signature = hmac.new(key, b"".join(fields), hashlib.sha256).hexdigest()
    return [b"", _DELIMITER, signature.encode(), *fields]


def size(frames: list[bytes]) -> int:
    """Bytes that count for a message."""
    return _EACH + sum(map(len, frames))
