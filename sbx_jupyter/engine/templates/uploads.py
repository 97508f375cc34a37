"""The archives that clients upload for COPY steps, named by ``stored_hash``."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.live.descriptors import write_all
from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.state.keys import load_or_make_key
from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError
from sbx_jupyter.isolation.stored.trees import sync_filesystem

if TYPE_CHECKING:
    from pathlib import Path

_HASH: Final = re.compile(r"[0-9a-f]{64}\Z")
_LIFETIME: Final = 3600 * 6
_KEPT_SECONDS: Final = 7 * 86400
_KEPT_BYTES: Final = 20 * 1024**3
_DRAFT: Final = ".part"
_ARCHIVE: Final = re.compile(r"[0-9a-f]{64}(\.tar|\.[0-9a-f]{16}\.part)")


def check_hash(text: str) -> str:
    """Check a files hash; raises ``InvalidArgumentError``."""
    if not _HASH.match(text):
        raise InvalidArgumentError("Invalid files hash")
    return text


def stored_hash(files_hash: str, owner: str) -> str:
    """The hash that an owner's archive is kept under; raises ``InvalidArgumentError``.

    A hash is what its client says, not what the content is. So nobody may give or get content by
    the hash of files of somebody else.
    """
    check_hash(files_hash)
    if not owner:
        return files_hash
    return hashlib.sha256(f"{files_hash} {owner}".encode()).hexdigest()


class Uploads:
    """A directory of complete archives; unfinished ones have another name."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self._folder = folder
        self._key = keys / "uploads.key"

    def open(self) -> None:
        """Make the directory and remove unfinished uploads; blocking."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in leftovers.files(self._folder, _ARCHIVE):
            if name.endswith(_DRAFT):
                (self._folder / name).unlink()
        self.prune()

    def has(self, files_hash: str) -> bool:
        """Whether the archive is complete."""
        return self.path(files_hash).is_file()

    def path(self, files_hash: str) -> Path:
        """Where a complete archive is."""
        return self._folder / f"{check_hash(files_hash)}.tar"

    def sign(self, files_hash: str) -> str:
        """A token that permits the upload of this archive for six hours."""
        text = f"{check_hash(files_hash)}.{int(time.time()) + _LIFETIME}"
        return f"{text}.{self._signature(text)}"

    def check(self, token: str) -> str:
        """The files hash of a token; raises ``PermissionDeniedError``."""
        text, _, signature = token.rpartition(".")
        files_hash, _, expires = text.partition(".")
        known = hmac.compare_digest(signature.encode(), self._signature(text).encode())
        if not known or not _HASH.match(files_hash) or int(expires) < time.time():
            raise PermissionDeniedError("the upload link is not valid any more")
        return files_hash

    def begin(self, files_hash: str) -> Upload:
        """Start an upload; once complete it replaces an archive of the same hash. Blocking.

        Raises ``NoSpaceError`` when the disk is full.
        """
        draft = self._folder / f"{files_hash}.{secrets.token_hex(8)}{_DRAFT}"
        try:
            return Upload(draft, self.path(files_hash))
        except OSError as error:
            raise translate(error, "taking an upload") from error

    def prune(self) -> None:
        """Remove archives older than a week, and the oldest beyond 20 GiB; blocking."""
        paths = [self._folder / name for name in leftovers.files(self._folder, _ARCHIVE)]
        found = sorted(
            ((path.stat().st_mtime, path.stat().st_size, path) for path in paths), reverse=True
        )
        kept = 0
        for at, size, path in found:
            kept += size
            is_old = at < time.time() - _KEPT_SECONDS
            if (is_old or kept > _KEPT_BYTES) and not path.name.endswith(_DRAFT):
                path.unlink(missing_ok=True)

    def _signature(self, text: str) -> str:
        key = load_or_make_key(self._key, lambda: secrets.token_bytes(32))
        digest = hmac.new(key, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Upload:
    """One archive that is being uploaded; every method blocks."""

    def __init__(self, draft: Path, target: Path) -> None:
        self._draft = draft
        self._target = target
        self._file: int | None = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )

    def write(self, chunk: bytes) -> None:
        """Append a piece; raises ``NoSpaceError`` when the disk is full."""
        if self._file is None:
            raise InvalidArgumentError("the upload has ended")
        try:
            write_all(self._file, [chunk])
        except OSError as error:
            raise translate(error, "taking an upload") from error

    def finish(self) -> Path:
        """Sync the archive, give it its name and return its path."""
        if self._file is None:
            raise InvalidArgumentError("the upload has ended")
        try:
            os.fsync(self._file)
            self._draft.rename(self._target)
            sync_filesystem(self._target.parent)
        except OSError as error:
            raise translate(error, "taking an upload") from error
        finally:
            os.close(self._file)
            self._file = None
        return self._target

    def drop(self) -> None:
        """Remove an unfinished archive; does nothing after ``finish``."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._draft.unlink(missing_ok=True)
