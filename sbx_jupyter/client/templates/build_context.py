"""Finds the files of a build context that a COPY step copies, hashes them and packs them."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import stat
import tarfile
import tempfile
import zlib
from typing import IO, TYPE_CHECKING, Final

from sbx_jupyter.client.templates.ignore import IgnorePatterns
from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CHUNK: Final = 1024 * 1024


class BuildContext:
    """A directory that COPY steps take files from; every method blocks."""

    def __init__(
        self,
        folder: Path,
        *,
        ignore_file: Path | None = None,
        inline: Mapping[str, bytes] | None = None,
    ) -> None:
        """``ignore_file`` replaces ``.dockerignore`` if it exists.

        ``inline`` maps names of files that are not on the disk to their contents.
        """
        self._folder = folder.resolve()
        self._inline = inline or {}
        text = ""
        for path in (ignore_file, self._folder / ".dockerignore"):
            if path is not None and path.is_file():
                text = path.read_text()
                break
        self._ignored = IgnorePatterns(text)

    def find(self, source: str) -> list[str]:
        """List the files, links and directories of a source, by names relative to the context.

        Raises ``InvalidArgumentError`` for a source that does not exist or is outside the context.
        """
        if source in self._inline:
            return [source]
        found: set[str] = set()
        for path in self._meant(source):
            self._collect(str(path.relative_to(self._folder)), found)
        found.discard(".")
        if not found:
            raise InvalidArgumentError(f"'{source}' is not in {self._folder}")
        return sorted(found)

    def matches(self, source: str) -> list[tuple[str, str]]:
        """List what a source or pattern matches: pairs of name and kind.

        The kind is ``file``, ``archive`` (a tar) or ``directory``.

        Raises ``InvalidArgumentError`` as ``find`` does.
        """
        self.find(source)
        named = [(str(path.relative_to(self._folder)), path) for path in self._meant(source)]
        return [(name, _kind(path)) for name, path in named if not self._ignored.match(name)]

    def _meant(self, source: str) -> list[Path]:
        normal = os.path.normpath(source)
        if normal.startswith(("..", "/")):
            raise InvalidArgumentError(f"'{source}' is outside of the build context")
        return sorted(self._folder.glob(normal)) if normal != "." else [self._folder]

    def _collect(self, name: str, found: set[str]) -> None:
        path = self._folder / name
        if not self._ignored.match(name):
            found.add(name)
        if path.is_dir() and not path.is_symlink():
            for child in path.iterdir():
                self._collect(str(child.relative_to(self._folder)), found)

    def hash(self, source: str, target: str, names: list[str]) -> str:
        """Hash a COPY step and the contents of its files (SHA-256, in hex)."""
        seen = hashlib.sha256(f"COPY {source} {target}".encode())
        for name in names:
            if name in self._inline:
                seen.update(os.fsencode(name) + self._inline[name])
                continue
            path = self._folder / name
            status = path.lstat()
            seen.update(os.fsencode(name) + str(status.st_mode).encode())
            if stat.S_ISLNK(status.st_mode):
                seen.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                seen.update(str(status.st_size).encode())
                with path.open("rb") as file:
                    while chunk := file.read(_CHUNK):
                        seen.update(chunk)
        return seen.hexdigest()

    def pack(self, names: list[str]) -> IO[bytes]:
        """Pack the files into a compressed tar in a temporary file, which the caller closes."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is given to the caller
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
            for name in names:
                if name in self._inline:
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = len(self._inline[name]), 0o644
                    tar.addfile(info, io.BytesIO(self._inline[name]))
                    continue
                tar.add(self._folder / name, arcname=name, recursive=False)
        file.seek(0)
        return file


def _kind(path: Path) -> str:
    if path.is_dir():
        return "directory"
    if not path.is_file():
        return "file"
    try:
        # As in Docker, the content decides and not the suffix of the name.
        with tarfile.open(path) as tar:
            return "archive" if tar.next() is not None else "file"
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        return "file"
