"""Keeps the messages of a sandboxed kernel from acting in the page.

A notebook trusts what its kernel sends: it runs scripts in results, opens comms with code of the
kernel's choice, and shows help as HTML. A kernel in a sandbox is hostile, so each of its messages
is checked here, cut down to what can do no harm, and signed again with the key that the page's side
knows. The kernel never learns that key.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.kernel import contents, widgets

if TYPE_CHECKING:
    from sbx_jupyter.kernel.drawing import PageDrawing

DELIMITER: Final = b"<IDS|MSG>"

Content = dict[str, Any]

_HEADER: Final = ("msg_id", "session", "username", "date", "msg_type", "version")
_MAX_FIELD: Final = 200
_MAX_PARENT: Final = 4096
_MAX_ROUTING: Final = 1024
_numbers: Final = itertools.count()


class ForgedMessageError(Exception):
    """A message that the kernel did not sign, or that is not a message."""


class Named(msgspec.Struct):
    """The fields that identify a request, in its own header and as the parent of an answer."""

    msg_id: str = ""
    msg_type: str = ""


class Signer:
    """Signs and checks messages with the key of one connection file."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, parts: list[bytes]) -> bytes:
        """The signature of header, parent header, metadata and content."""
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            digest.update(part)
        return digest.hexdigest().encode()

    def split(self, frames: list[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """The identities, the four signed parts and the buffers of a message.

        Raises ``ForgedMessageError``.
        """
        if DELIMITER not in frames:
            raise ForgedMessageError("no delimiter")
        at = frames.index(DELIMITER)
        signature, parts, buffers = (
            frames[at + 1 : at + 2],
            frames[at + 2 : at + 6],
            frames[at + 6 :],
        )
        if len(parts) != 4 or not signature or signature[0] != self.sign(parts):
            raise ForgedMessageError("a wrong signature")
        return frames[:at], parts, buffers


def to_guest(frames: list[bytes], ours: Signer, theirs: Signer) -> list[bytes]:
    """A message for the kernel, signed with its own key. Raises ``ForgedMessageError``."""
    identities, parts, buffers = ours.split(frames)
    return [*identities, DELIMITER, theirs.sign(parts), *parts, *buffers]


def execute_header(frames: list[bytes]) -> bytes | None:
    """The header of a request to run code; ``None`` for other messages."""
    at = frames.index(DELIMITER) if DELIMITER in frames else len(frames)
    header = frames[at + 2] if len(frames) > at + 2 else b""
    return header if b'"execute_request"' in header else None


def named(header: bytes) -> Named:
    """The names in a header or a parent header; empty ones if there are none."""
    try:
        return msgspec.json.decode(header, type=Named)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Named()


def new_header(kind: str) -> bytes:
    """The header of a message of this side."""
    date = datetime.now(UTC).isoformat()
    fields = {"msg_id": uuid.uuid4().hex, "session": "sbx", "username": "sbx", "date": date}
    return _encoded(fields | {"msg_type": kind, "version": "5.3"})


def from_guest(
    channel: str,
    frames: list[bytes],
    theirs: Signer,
    ours: Signer,
    drawing: PageDrawing | None = None,
) -> list[bytes] | None:
    """Filter a message of the kernel and sign it with our key; ``None`` if nothing is left.

    With ``drawing``, the message also has what a kernel displays that may draw in pages.
    Raises ``ForgedMessageError``.
    """
    identities, parts, buffers = theirs.split(frames)
    _check_size(identities, parts[1])
    header, _, content = (_decoded(parts[at]) for at in (0, 1, 3))
    kind = str(header.get("msg_type"))
    header = _header(header)
    if channel == "iopub" and kind in widgets.COMMS:
        if (carried := widgets.tunnelled(kind, content)) is None:
            return None
        parts = [_encoded(header | {"msg_type": "comm_msg"}), parts[1], b"{}", _encoded(carried)]
        return [*identities, DELIMITER, ours.sign(parts), *parts, *buffers]
    keep = contents.KEPT[channel].get(kind)
    if keep is None or (kept := keep(content)) is None:
        return None
    if drawing is not None and isinstance(content.get("data"), dict) and keep is contents.display:
        bundle = cast("Content", content["data"])
        kept["data"] |= drawing.direct(bundle, kept["data"], content.get("metadata"))
    # Metadata has no use that the page needs, and extensions act on it.
    parts = [_encoded(header), parts[1], b"{}", _encoded(kept)]
    return [*identities, DELIMITER, ours.sign(parts), *parts]


def direct_comm(
    frames: list[bytes], theirs: Signer, ours: Signer, drawing: PageDrawing
) -> list[bytes] | None:
    """A comm message of a kernel that may draw in pages, as it is; ``None`` for other messages.

    Raises ``ForgedMessageError``.
    """
    identities, parts, buffers = theirs.split(frames)
    _check_size(identities, parts[1])
    header, content = _decoded(parts[0]), _decoded(parts[3])
    kind = str(header.get("msg_type"))
    if kind not in widgets.COMMS or (marks := drawing.comm(kind, content)) is None:
        return None
    # Front ends would load this module, in the pages that let nothing draw as well.
    content.pop("target_module", None)
    # The metadata name the version of the widgets' protocol.
    metadata = _encoded(_decoded(parts[2]) | marks)
    parts = [_encoded(_header(header)), parts[1], metadata, _encoded(content)]
    return [*identities, DELIMITER, ours.sign(parts), *parts, *buffers]


def _check_size(identities: list[bytes], parent: bytes) -> None:
    """Check what is passed on as it is, and counts for no limit. Raises ``ForgedMessageError``.

    The parent is the header of a request of ours. This side keeps it for a while.
    """
    if len(parent) > _MAX_PARENT or sum(len(each) + 1 for each in identities) > _MAX_ROUTING:
        raise ForgedMessageError("a parent or identities that no request had")


def _header(found: Content) -> Content:
    """A header with the fields that receivers need, and no message twice.

    ``jupyter_client`` raises an error for a message that it has seen already.
    """
    header = {name: str(found.get(name, ""))[:_MAX_FIELD] for name in _HEADER}
    return header | {"msg_id": f"{header['msg_id']}_{next(_numbers)}"}


def _decoded(raw: bytes) -> Content:
    try:
        found: object = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # Programs may print halves of characters, which only the standard library takes.
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ForgedMessageError("not JSON") from error
    except RecursionError as error:
        raise ForgedMessageError("JSON that is nested too deeply") from error
    if not isinstance(found, dict):
        raise ForgedMessageError("not a JSON object")
    return cast("Content", found)


def _encoded(content: Content) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(content).encode()
