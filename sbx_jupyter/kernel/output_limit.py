"""Cuts what the cells of a sandboxed kernel show, so that a flood leaves the notebook usable.

Front ends keep all that a cell shows, in memory and in the file.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from sbx_jupyter.display.text import size
from sbx_jupyter.kernel.guest.frames import CUT
from sbx_jupyter.kernel.messages import named

MAX_TEXT: Final = 8 * 1024 * 1024
"""Bytes of printed text that are passed on for one cell; then its end is kept for the last."""
MAX_DISPLAYED: Final = 64 * 1024 * 1024
"""Bytes of results for one cell, of which each counts ``EACH`` at least."""
EACH: Final = 8 * 1024
"""Bytes that a message counts at least, except for printed text: 2,048 a second replace others."""
MAX_TAIL: Final = 8 * 1024
"""Characters of the end of a text that was cut."""
REPLACING: Final = 16 * 1024 * 1024
"""Bytes a second for replacing shown output: updates of results, messages of widgets.

Replies have as much besides.
"""

_MAX_CELLS: Final = 1000
_BURST: Final = 4 * REPLACING
_MAX_ERRORS: Final = 8 * 1024 * 1024
_MAX_TOLD: Final = 64 * 1024
"""Bytes of ends and sentences about left-out output for one cell; the last may exceed it."""
_EACH_TEXT: Final = 128
_EACH_REPLY: Final = 512
_DISPLAYS: Final = ("display_data", "execute_result")
_REPLACES: Final = ("update_display_data", "comm_msg")

Message = tuple[str, bytes]
"""The type and the content of a message, as JSON."""


@dataclass(slots=True)
class _Shown:
    """Amounts of output that were passed on for one cell, and that were left out."""

    text: int = 0
    displayed: int = 0
    errors: int = 0
    cut: int = 0
    undisplayed: int = 0
    unreplaced: int = 0
    tail: str = ""
    told: int = 0
    """Bytes about what was left out. A kernel can send ``idle`` as often as it likes."""


@dataclass(slots=True)
class _Bucket:
    """Lets through ``REPLACING`` bytes a second; unused ones may be used later, at once."""

    left: float = _BURST
    filled: float = field(default_factory=time.monotonic)

    def take(self, count: int) -> bool:
        now = time.monotonic()
        self.left = min(_BURST, self.left + (now - self.filled) * REPLACING)
        self.filled = now
        if count > self.left:
            return False
        self.left -= count
        return True


class OutputLimit:
    """Counts the output of each cell of one kernel. Headers and contents are checked JSON."""

    def __init__(self) -> None:
        self._cells: OrderedDict[str, _Shown] = OrderedDict()
        self._others = _Shown()
        self._bucket = _Bucket()
        self._rest = _Bucket()
        self._replies = _Bucket()

    def begin(self, header: bytes) -> None:
        """Note a request to run code, by its header; its output has a limit of its own."""
        self._cells[named(header).msg_id] = _Shown()
        self._others = _Shown()
        if len(self._cells) > _MAX_CELLS:
            self._cells.popitem(last=False)

    def passed(
        self, header: bytes, parent: bytes, content: bytes, beside: int = 0
    ) -> list[Message]:
        """The messages to send instead of one of the output channel: often just that one.

        ``beside``: the bytes of its buffers, which only messages of widgets have.
        """
        kind = named(header).msg_type
        message = (kind, content)
        shown = self._cells.get(named(parent).msg_id, self._others)
        if kind == "stream":
            return _printed(shown, content)
        if kind in _DISPLAYS:
            return _displayed(shown, message)
        if kind == "error":
            shown.errors += len(content)
            return [message] if shown.errors <= _MAX_ERRORS else []
        if kind == CUT:
            return _cut(shown, content)
        if kind in _REPLACES:
            is_passed = self._bucket.take(max(len(content) + beside, EACH))
            shown.unreplaced += not is_passed
            return [message] if is_passed else []
        if kind == "status" and b'"idle"' in content:
            return [*_left_out(shown), message]
        if not self._rest.take(max(len(content), EACH)):
            return []
        if kind == "clear_output":
            # Only now: front ends keep what they are not told to clear.
            shown.text = shown.displayed = shown.told = 0
        return [message]

    def passes_reply(self, count: int) -> bool:
        """Whether a message of another channel, of ``count`` bytes, is passed on."""
        return self._replies.take(max(count, _EACH_REPLY))


def _printed(shown: _Shown, content: bytes) -> list[Message]:
    room = MAX_TEXT - shown.text
    message = ("stream", content)
    if len(content) <= room:
        shown.text += _counted(message)
        return [message]
    # Programs may print halves of characters, which only the standard library takes.
    fields = cast("dict[str, str]", json.loads(content))
    name, text = fields["name"], fields["text"]
    shown.text = MAX_TEXT
    shown.cut += max(0, len(text) - max(room, 0))
    shown.tail = (shown.tail + text[max(room, 0) :])[-MAX_TAIL:]
    if room <= 0:
        return []
    note = "\n[cut: the code prints more than is shown, and runs on]\n"
    return [_stream(name, text[:room]), _stream("stderr", note)]


def _displayed(shown: _Shown, message: Message) -> list[Message]:
    shown.displayed += max(len(message[1]), EACH)
    if shown.displayed > MAX_DISPLAYED:
        shown.undisplayed += 1
        return []
    return [message]


def _cut(shown: _Shown, content: bytes) -> list[Message]:
    """Messages about output that the sandbox left out; content is ``{"size": bytes}``."""
    count = int(msgspec.json.decode(content)["size"])
    if shown.text >= MAX_TEXT:
        shown.cut += count
        return []
    note = f"\n[cut: {size(count)} of output came faster than it was read]\n"
    said = _stream("stderr", note)
    shown.text += _counted(said)
    return [said]


def _left_out(shown: _Shown) -> list[Message]:
    """Messages at the end of a cell about output that was left out."""
    said: list[Message] = []
    if shown.cut:
        left = size(shown.cut - len(shown.tail))
        said.append(_stream("stderr", f"[cut: {left} of output left out; its end follows]\n"))
        said.append(_stream("stdout", shown.tail))
    if shown.undisplayed:
        text = f"[cut: {shown.undisplayed} more results are not shown]\n"
        said.append(_stream("stderr", text))
    if shown.unreplaced:
        text = f"[cut: {shown.unreplaced} updates of results and widgets came too fast]\n"
        said.append(_stream("stderr", text))
    shown.cut, shown.tail, shown.undisplayed, shown.unreplaced = 0, "", 0, 0
    if shown.told >= _MAX_TOLD:
        return []
    shown.told += sum(map(_counted, said))
    return said


def _counted(message: Message) -> int:
    """The bytes that a message with text counts."""
    return max(len(message[1]), _EACH_TEXT)


def _stream(name: str, text: str) -> Message:
    return "stream", json.dumps({"name": name, "text": text}).encode()
