"""The blobs of container images on the disk, each named by the digest of its content.

All owners share them, but a digest is no secret: anybody with a registry can name one there. So an
owner may use a blob only once a registry has given it to that owner; an empty file beside the blob
records that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from typing import IO, TYPE_CHECKING, Final

from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.templates.images.compression import is_zstd, open_uncompressed
from sbx_jupyter.engine.templates.images.oci import check_digest
from sbx_jupyter.errors import DataLossError, NoSpaceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sbx_jupyter.engine.templates.images.oci import ImageLayer

_CHUNK: Final = 1024 * 1024
_DRAFT: Final = ".part"
_BLOB: Final = re.compile(r"[a-z0-9]+-[0-9a-f]+(\.of-[0-9a-f]{32})?|[0-9a-f]{16}\.part")
_KEPT_SECONDS: Final = 7 * 86400
_KEPT_BYTES: Final = 10 * 1024**3


class Blobs:
    """A directory of verified blobs; every method blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the directory; remove old and unfinished blobs."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in leftovers.files(self._folder, _BLOB):
            if name.endswith(_DRAFT):
                (self._folder / name).unlink()
        self.prune()

    def path(self, digest: str) -> Path:
        """The path of a blob; raises ``InvalidArgumentError`` for a malformed digest."""
        return self._folder / check_digest(digest).replace(":", "-")

    def has(self, digest: str, owner: str = "") -> bool:
        """Whether there is the blob and ``owner`` may use it; the operator may use all.

        It then counts as new, so that ``prune`` keeps it.
        """
        try:
            if owner:
                os.utime(self._proof(digest, owner))
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    def check_room(self, size: int) -> None:
        """Raise ``NoSpaceError`` when the disk has less free space."""
        if size > shutil.disk_usage(self._folder).free:
            raise NoSpaceError("the image is larger than the space that is left")

    def put(
        self,
        chunks: Iterable[bytes],
        digest: str | None,
        size: int | None = None,
        *,
        owner: str = "",
    ) -> str:
        """Store a blob; raises ``DataLossError`` when it does not have the given digest.

        ``size`` is the expected number of bytes; longer content is not read to its end. From then
        on ``owner``, who has given the content, may use the blob.
        """
        draft, seen = self._draft(), hashlib.sha256()
        left = size
        try:
            with draft.open("xb") as file:
                for chunk in chunks:
                    if left is not None and (left := left - len(chunk)) < 0:
                        raise DataLossError(f"the content of {digest} is longer than {size} bytes")
                    seen.update(chunk)
                    file.write(chunk)
            found = f"sha256:{seen.hexdigest()}"
            if digest is not None and found != digest:
                raise DataLossError(f"the content of {digest} is damaged: it is {found}")
            draft.rename(self.path(found))
            if owner:
                self._proof(found, owner).touch(mode=0o600)
        except OSError as error:
            raise translate(error, "keeping an image") from error
        finally:
            draft.unlink(missing_ok=True)
        return found

    def check_layer(self, layer: ImageLayer, left: int) -> int:
        """Check the uncompressed digest of a layer; returns the bytes that unpacking needs.

        Raises ``DataLossError``, and ``NoSpaceError`` for more than ``left`` bytes.
        """
        path = self.path(layer.blob)
        # Layers are unpacked by the standard library, which may lack zstd, so an uncompressed copy
        # of such a layer is kept.
        needs_copy = is_zstd(path)
        seen, size = hashlib.sha256(), 0
        draft = self._draft()
        try:
            with open_uncompressed(path) as stream, contextlib.ExitStack() as opened:
                target = opened.enter_context(draft.open("xb")) if needs_copy else None
                while chunk := stream.read(_CHUNK):
                    seen.update(chunk)
                    size += len(chunk) * (2 if needs_copy else 1)
                    if size > left:
                        raise NoSpaceError("the image is larger than the space that is left")
                    if target is not None:
                        target.write(chunk)
            if f"sha256:{seen.hexdigest()}" != layer.diff_id:
                raise DataLossError(f"the layer {layer.blob} is not {layer.diff_id}")
            os.utime(path)
            if needs_copy:
                draft.rename(self.path(layer.diff_id))
        except OSError as error:
            raise translate(error, "looking through an image") from error
        except DataLossError as error:
            raise DataLossError(f"the layer {layer.blob} is damaged: {error.message}") from error
        finally:
            draft.unlink(missing_ok=True)
        return size

    def unpackable(self, layers: list[ImageLayer]) -> list[Path]:
        """The paths of checked layers, uncompressed or compressed by gzip."""
        paths = [(self.path(layer.blob), layer) for layer in layers]
        return [self.path(layer.diff_id) if is_zstd(path) else path for path, layer in paths]

    def remove_copies(self, layers: list[ImageLayer]) -> None:
        """Remove the uncompressed copies that ``check_layer`` made."""
        for layer in layers:
            if layer.diff_id != layer.blob:
                self.path(layer.diff_id).unlink(missing_ok=True)

    def _proof(self, digest: str, owner: str) -> Path:
        """The file that says that ``owner`` got the content of a blob from a registry."""
        name = hashlib.sha256(owner.encode()).hexdigest()[:32]
        return self.path(digest).with_suffix(f".of-{name}")

    def _draft(self) -> Path:
        return self._folder / f"{secrets.token_hex(8)}{_DRAFT}"

    def prune(self) -> None:
        """Remove blobs older than a week, and the oldest beyond 10 GiB."""
        paths = [self._folder / name for name in leftovers.files(self._folder, _BLOB)]
        found = [(path.stat(), path) for path in paths]
        found.sort(key=lambda item: item[0].st_mtime, reverse=True)
        kept = 0
        for status, path in found:
            kept += status.st_size
            if status.st_mtime < time.time() - _KEPT_SECONDS or kept > _KEPT_BYTES:
                path.unlink(missing_ok=True)


def read_chunks(file: IO[bytes]) -> Iterable[bytes]:
    """The content of a file in chunks."""
    while chunk := file.read(_CHUNK):
        yield chunk
