"""Parts of container images on the disk, each under the digest of its content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.templates.images.compression import is_zstd, open_plain
from sbx_jupyter.errors import DataLossError, InvalidArgumentError, NoSpaceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_JSON: Final = 8 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_DRAFT: Final = ".part"
_KEPT_SECONDS: Final = 7 * 86400
_KEPT_BYTES: Final = 10 * 1024**3


class ImageLayer(msgspec.Struct, frozen=True):
    """One layer: its blob here, and the digest of what is in it uncompressed."""

    blob: str
    diff_id: str


class Image(msgspec.Struct, frozen=True):
    """What is needed of an image: its identity, its layers from the lowest, its variables."""

    digest: str
    layers: list[ImageLayer]
    envs: dict[str, str]


class Blobs:
    """A directory of verified blobs; every method blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the directory; forget what is old and what never became whole."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in self._folder.iterdir():
            if path.name.endswith(_DRAFT):
                path.unlink()
        self.prune()

    def path(self, digest: str) -> Path:
        """Where a blob is; raises ``InvalidArgumentError`` for what is no digest."""
        return self._folder / check_digest(digest).replace(":", "-")

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def check_room(self, size: int) -> None:
        """Raise ``NoSpaceError`` when so many bytes do not fit on the disk."""
        if size > shutil.disk_usage(self._folder).free:
            raise NoSpaceError("the image is larger than the space that is left")

    def put(self, chunks: Iterable[bytes], digest: str | None, size: int | None = None) -> str:
        """Keep content; raises ``DataLossError`` unless it has the digest that it should have.

        ``size`` is how many bytes it should have; what is longer is not read to its end.
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
        except OSError as error:
            raise translate(error, "keeping an image") from error
        finally:
            draft.unlink(missing_ok=True)
        return found

    def check_layer(self, layer: ImageLayer, left: int) -> int:
        """Compare a layer with its uncompressed digest; give how much space it needs.

        Raises ``DataLossError``, and ``NoSpaceError`` when that is more than ``left``.
        """
        path = self.path(layer.blob)
        # What unpacks layers knows what the standard library knows: zstd is taken off here.
        is_kept = is_zstd(path)
        seen, size = hashlib.sha256(), 0
        draft = self._draft()
        try:
            with open_plain(path) as stream, contextlib.ExitStack() as opened:
                target = opened.enter_context(draft.open("xb")) if is_kept else None
                while chunk := stream.read(_CHUNK):
                    seen.update(chunk)
                    size += len(chunk) * (2 if is_kept else 1)
                    if size > left:
                        raise NoSpaceError("the image is larger than the space that is left")
                    if target is not None:
                        target.write(chunk)
            if f"sha256:{seen.hexdigest()}" != layer.diff_id:
                raise DataLossError(f"the layer {layer.blob} is not {layer.diff_id}")
            os.utime(path)
            if is_kept:
                draft.rename(self.path(layer.diff_id))
        except OSError as error:
            raise translate(error, "looking through an image") from error
        except DataLossError as error:
            raise DataLossError(f"the layer {layer.blob} is damaged: {error.message}") from error
        finally:
            draft.unlink(missing_ok=True)
        return size

    def unpackable(self, layers: list[ImageLayer]) -> list[Path]:
        """Checked layers as archives that are plain or compressed by gzip."""
        paths = [(self.path(layer.blob), layer) for layer in layers]
        return [self.path(layer.diff_id) if is_zstd(path) else path for path, layer in paths]

    def forget_plain(self, layers: list[ImageLayer]) -> None:
        """Remove what ``check_layer`` made of layers; repeating it is fine."""
        for layer in layers:
            if layer.diff_id != layer.blob:
                self.path(layer.diff_id).unlink(missing_ok=True)

    def _draft(self) -> Path:
        return self._folder / f"{secrets.token_hex(8)}{_DRAFT}"

    def prune(self) -> None:
        """Remove what was not used for long, and the oldest of too much."""
        found = [(path.stat(), path) for path in self._folder.iterdir()]
        found.sort(key=lambda item: item[0].st_mtime, reverse=True)
        kept = 0
        for status, path in found:
            kept += status.st_size
            if status.st_mtime < time.time() - _KEPT_SECONDS or kept > _KEPT_BYTES:
                path.unlink(missing_ok=True)


def check_digest(text: str) -> str:
    """A sha256 digest; raises ``InvalidArgumentError``."""
    if not isinstance(text, str) or not _DIGEST.match(text):
        raise InvalidArgumentError(f"'{str(text)[:100]}' is no sha256 digest")
    return text


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _Settings(msgspec.Struct):
    Env: list[str] | None = None


class ImageConfig(msgspec.Struct):
    """The parts of an image's configuration that matter here."""

    rootfs: _RootFs
    config: _Settings | None = None
    architecture: str = ""


def read_config(raw: bytes) -> ImageConfig:
    """Raises ``InvalidArgumentError``."""
    return decode(raw, ImageConfig, "the configuration of the image")


def decode(raw: bytes, kind: Any, what: str) -> Any:
    """A JSON document of an image; raises ``InvalidArgumentError``."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{what} cannot be read: {error}") from error


def assemble(config_raw: bytes, blobs: list[str]) -> Image:
    """An image of its configuration and the blobs of its layers, the lowest first."""
    config = read_config(config_raw)
    diff_ids = [check_digest(diff_id) for diff_id in config.rootfs.diff_ids]
    if len(diff_ids) != len(blobs) or not blobs:
        raise InvalidArgumentError("the image does not have the layers that it names")
    variables = (config.config.Env if config.config is not None else None) or []
    pairs = (text.partition("=") for text in variables)
    return Image(
        digest=f"sha256:{hashlib.sha256(config_raw).hexdigest()}",
        layers=[ImageLayer(*pair) for pair in zip(blobs, diff_ids, strict=True)],
        envs={name: value for name, equals, value in pairs if name and equals},
    )


def pieces(file: IO[bytes]) -> Iterable[bytes]:
    """The content of a file in pieces."""
    while chunk := file.read(_CHUNK):
        yield chunk
