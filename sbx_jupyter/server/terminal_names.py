"""Names of terminals on the disk: they outlive the Jupyter server, as the terminals do."""

from __future__ import annotations

import contextlib
import re
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TAG: Final = "jupyter-terminal"
"""Prefix of the tags of terminals of any Jupyter server."""

MAX_NAMES: Final = 1024
MAX_NAME: Final = 64
"""Characters."""

_MAX_BYTES: Final = 4 * MAX_NAME
_TAG: Final = re.compile(rf"{TAG}\.([0-9a-f]{{32}})")


def new_tag() -> str:
    """A tag for the process of a new terminal, which no other terminal ever has."""
    return f"{TAG}.{secrets.token_hex(16)}"


def is_terminal(tag: str) -> bool:
    """Whether a process with this tag is a terminal; earlier versions used ``TAG`` for all."""
    return tag == TAG or _TAG.fullmatch(tag) is not None


class TerminalNames:
    """A directory with one small file per named terminal; every method blocks.

    Several Jupyter servers of one user may share it. Of a terminal whose end no server saw, the
    file stays until there are ``MAX_NAMES`` newer ones.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, tags: Iterable[str]) -> dict[str, str]:
        """The names of those of the tags that have one."""
        found: dict[str, str] = {}
        for tag in tags:
            if (path := self._path(tag)) is None:
                continue
            with contextlib.suppress(OSError, UnicodeDecodeError), path.open("rb") as file:
                name = file.read(_MAX_BYTES).decode()
                if is_name(name):
                    found[tag] = name
        return found

    def write(self, tag: str, name: str) -> None:
        """Keep a name, or none when it is empty; raises ``OSError``."""
        if (path := self._path(tag)) is None:
            return
        if not name:
            path.unlink(missing_ok=True)
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            draft.write_bytes(name.encode())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        paths = list(self._folder.iterdir())
        if len(paths) > MAX_NAMES:
            for path in sorted(paths, key=_changed_at)[: len(paths) - MAX_NAMES]:
                path.unlink(missing_ok=True)

    def _path(self, tag: str) -> Path | None:
        match = _TAG.fullmatch(tag)
        return None if match is None else self._folder / match[1]


def is_name(name: str) -> bool:
    """Whether a text can be shown as the name of a terminal."""
    return len(name) <= MAX_NAME and name.isprintable()


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
