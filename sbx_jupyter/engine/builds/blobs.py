"""Parts of container images on the disk, each under the digest of its content."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import secrets
import time
import zlib
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.datadir import translate
from sbx_jupyter.errors import DataLossError, InvalidArgumentError, NoSpaceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_JSON: Final = 8 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
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
            if path.name.endswith(".part"):
                path.unlink()
        self.prune()

    def path(self, digest: str) -> Path:
        """Where a blob is; raises ``InvalidArgumentError`` for what is no digest."""
        return self._folder / check_digest(digest).replace(":", "-")

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def put(self, chunks: Iterable[bytes], digest: str | None) -> str:
        """Keep content; raises ``DataLossError`` unless it has the digest that it should have."""
        draft = self._folder / f"{secrets.token_hex(8)}.part"
        seen = hashlib.sha256()
        try:
            with draft.open("xb") as file:
                for chunk in chunks:
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
        """Compare a layer with its uncompressed digest; give its uncompressed size.

        Raises ``DataLossError``, ``InvalidArgumentError`` for a compression that is not known and
        ``NoSpaceError`` when it is larger than ``left``.
        """
        path = self.path(layer.blob)
        seen, size = hashlib.sha256(), 0
        try:
            with path.open("rb") as raw:
                head = raw.read(4)
                raw.seek(0)
                if head == _ZSTD:
                    raise InvalidArgumentError(
                        "the image has layers compressed with zstd, which is not supported"
                    )
                stream: Any = gzip.GzipFile(fileobj=raw) if head[:2] == _GZIP else raw
                while chunk := stream.read(_CHUNK):
                    seen.update(chunk)
                    size += len(chunk)
                    if size > left:
                        raise NoSpaceError("the image is larger than the space that is left")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataLossError(f"the layer {layer.blob} is damaged: {error}") from error
        if f"sha256:{seen.hexdigest()}" != layer.diff_id:
            raise DataLossError(f"the layer {layer.blob} is not {layer.diff_id}")
        os.utime(path)
        return size

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
