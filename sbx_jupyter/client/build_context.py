"""The files of a build context: which a COPY means, their hash and their archive."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
import tarfile
import tempfile
from typing import IO, TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK: Final = 1024 * 1024


class BuildContext:
    """A directory that COPY steps take files from; every method blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        try:
            text = (self._folder / ".dockerignore").read_text()
        except FileNotFoundError:
            text = ""
        lines = (line.strip() for line in text.splitlines())
        self._patterns = [line for line in lines if line and not line.startswith("#")]

    def find(self, source: str) -> list[str]:
        """Names of all files, links and directories of a source, relative to the context.

        Raises ``InvalidArgumentError`` for one that is not there or leads out.
        """
        normal = os.path.normpath(source)
        if normal.startswith(("..", "/")):
            raise InvalidArgumentError(f"'{source}' is outside of the build context")
        found: set[str] = set()
        for path in self._folder.glob(normal) if normal != "." else [self._folder]:
            self._collect(str(path.relative_to(self._folder)), found)
        found.discard(".")
        if not found:
            raise InvalidArgumentError(f"'{source}' is not in {self._folder}")
        return sorted(found)

    def _collect(self, name: str, found: set[str]) -> None:
        path = self._folder / name
        if not self._is_ignored(name):
            found.add(name)
        if path.is_dir() and not path.is_symlink():
            for child in path.iterdir():
                self._collect(str(child.relative_to(self._folder)), found)

    def _is_ignored(self, name: str) -> bool:
        ignored = False
        for pattern in self._patterns:
            wanted = pattern.lstrip("!").strip("/").replace("**/", "*")
            if fnmatch.fnmatch(name, wanted) or fnmatch.fnmatch(name, f"{wanted}/*"):
                ignored = not pattern.startswith("!")
        return ignored

    def hash(self, source: str, target: str, names: list[str]) -> str:
        """What tells one content of a COPY from another."""
        seen = hashlib.sha256(f"COPY {source} {target}".encode())
        for name in names:
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
        """The files as a compressed tar in a temporary file, to be closed by the caller."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is given to the caller
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
            for name in names:
                tar.add(self._folder / name, arcname=name, recursive=False)
        file.seek(0)
        return file
