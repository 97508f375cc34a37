"""Recognises the files that the engine itself writes into a sandbox when it starts."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.stored.merged_tree import read_file
from sbx_jupyter.isolation.zygote.host_names import MOST_BYTES, with_name

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from sbx_jupyter.isolation.stored.merged_tree import Layer

_MARKERS: Final = "run/e2b"
_HOSTS: Final = "etc/hosts"
_MAX_READ: Final = 66_000
_ID: Final = rb"[A-Za-z0-9_-]{1,64}\Z"


class SetUpFiles:
    """The host name and the markers of one sandbox (interface 3.3).

    They count as changes only where something else is in them, or where their mode is another.
    """

    def __init__(self, sandbox_id: str, ours: Sequence[Layer], theirs: Sequence[Layer]) -> None:
        """``ours`` and ``theirs`` are whole stacks of layers, topmost first."""
        self._ours = ours
        self._theirs = theirs
        self._name = sandbox_id.encode()
        name = re.escape(self._name)
        self._contents = {
            "etc/hostname": name + rb"\n\Z",
            f"{_MARKERS}/.E2B_SANDBOX": rb"true\Z",
            f"{_MARKERS}/.E2B_SANDBOX_ID": name + rb"\Z",
            f"{_MARKERS}/.E2B_TEMPLATE_ID": _ID,
        }

    def wrote(self, path: str, mine: os.stat_result, other: os.stat_result | None) -> bool:
        """Whether the set-up made the entry at ``path`` what it is; ``other`` is what was there."""
        if path == _MARKERS:
            return mine.st_mode == (stat.S_IFDIR | 0o755 if other is None else other.st_mode)
        if path != _HOSTS and path not in self._contents:
            return False
        if mine.st_mode != (stat.S_IFREG | 0o644 if other is None else other.st_mode):
            return False
        content = read_file(self._ours, path, _MAX_READ)
        if content is None:
            return False
        if path == _HOSTS:
            return content == self._hosts(other)
        return re.match(self._contents[path], content) is not None

    def _hosts(self, other: os.stat_result | None) -> bytes | None:
        """The file as the set-up writes it; ``None`` where it does not touch what was there."""
        before = None if other is None else read_file(self._theirs, _HOSTS, MOST_BYTES)
        if before is None and other is not None:
            return None
        return with_name(before, self._name)
