"""Reads images out of tars: what ``docker save`` writes, and OCI layouts."""

from __future__ import annotations

import platform
import posixpath
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.templates.images.blobs import (
    MAX_JSON,
    assemble,
    check_digest,
    decode,
    pieces,
)
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.trees.tar_headers import CarefulTarInfo

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.templates.images.blobs import Blobs, Image

_MAX_ENTRIES: Final = 10_000
_MAX_LAYERS: Final = 200
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Platform(msgspec.Struct):
    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct):
    """How one document of an image names another."""

    digest: str
    size: int = 0
    media_type: str = msgspec.field(name="mediaType", default="")
    platform: Platform | None = None


class Manifest(msgspec.Struct):
    config: Descriptor
    layers: list[Descriptor]


class Index(msgspec.Struct):
    manifests: list[Descriptor] = []


class _Saved(msgspec.Struct):
    config: str = msgspec.field(name="Config")
    layers: list[str] = msgspec.field(name="Layers")


def is_index(raw: bytes) -> bool:
    """Whether a document lists images of several platforms."""
    return bool(decode(raw, Index, "the manifest of the image").manifests)


def choose(index: Index) -> Descriptor:
    """The image for this machine; raises ``InvalidArgumentError``."""
    wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
    for found in index.manifests:
        target = found.platform
        if target is None or (target.architecture, target.os) == (wanted, "linux"):
            return found
    raise InvalidArgumentError(f"there is no image for linux/{wanted}")


def read_archive(path: Path, blobs: Blobs) -> Image:
    """Take the image of a tar into ``blobs``; blocking.

    Raises ``InvalidArgumentError`` for what is no image, ``DataLossError`` for a damaged one.
    """
    try:
        with tarfile.open(path, "r:*", tarinfo=CarefulTarInfo) as tar:
            return _Archive(tar, blobs).read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InvalidArgumentError(f"the file is not a complete tar: {error}") from error


class _Archive:
    def __init__(self, tar: tarfile.TarFile, blobs: Blobs) -> None:
        self._tar = tar
        self._blobs = blobs
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in tar:
            self._members[posixpath.normpath(member.name)] = member
            if len(self._members) > _MAX_ENTRIES:
                raise InvalidArgumentError("this is not an image: it has too many entries")

    def read(self) -> Image:
        if "manifest.json" in self._members:
            return self._read_saved()
        if "index.json" in self._members:
            return self._read_layout()
        raise InvalidArgumentError(
            "this is not an image: neither manifest.json nor index.json is in it"
        )

    def _read_saved(self) -> Image:
        saved = decode(self._json("manifest.json"), list[_Saved], "manifest.json")
        if len(saved) != 1:
            raise InvalidArgumentError(f"the archive has {len(saved)} images: save one alone")
        if len(saved[0].layers) > _MAX_LAYERS:
            raise InvalidArgumentError("the image has too many layers")
        blobs = [self._blob(name, None) for name in saved[0].layers]
        return assemble(self._json(saved[0].config), blobs)

    def _read_layout(self) -> Image:
        raw = self._json("index.json")
        for _ in range(3):
            if not is_index(raw):
                break
            index = decode(raw, Index, "index.json")
            raw = self._json(_blob_name(choose(index).digest))
        manifest = decode(raw, Manifest, "the manifest of the image")
        if len(manifest.layers) > _MAX_LAYERS:
            raise InvalidArgumentError("the image has too many layers")
        blobs = [self._blob(_blob_name(layer.digest), layer.digest) for layer in manifest.layers]
        return assemble(self._json(_blob_name(manifest.config.digest)), blobs)

    def _json(self, name: str) -> bytes:
        member = self._member(name)
        if member.size > MAX_JSON:
            raise InvalidArgumentError(f"'{name}' in the archive is too long")
        file = self._tar.extractfile(member)
        return b"" if file is None else file.read()

    def _blob(self, name: str, digest: str | None) -> str:
        file = self._tar.extractfile(self._member(name))
        if file is None:
            raise InvalidArgumentError(f"'{name[:200]}' in the archive is no file")
        return self._blobs.put(pieces(file), digest)

    def _member(self, name: str) -> tarfile.TarInfo:
        path = posixpath.normpath(name)
        for _ in range(8):  # old archives link equal layers to each other
            member = self._members.get(path)
            if member is None:
                break
            if member.isreg():
                return member
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
        raise InvalidArgumentError(f"'{name[:200]}' is not in the archive")


def _blob_name(digest: str) -> str:
    return "blobs/" + check_digest(digest).replace(":", "/")
