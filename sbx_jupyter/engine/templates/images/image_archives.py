"""Reads images from tars: what ``docker save`` writes, and OCI layouts."""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.templates.images.blobs import read_chunks
from sbx_jupyter.engine.templates.images.oci import (
    MAX_JSON,
    MAX_LAYERS,
    Index,
    Manifest,
    assemble,
    check_digest,
    choose,
    decode,
    is_index,
)
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.trees.tar_headers import LimitedTarFile

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.templates.images.blobs import Blobs
    from sbx_jupyter.engine.templates.images.oci import Image

_MAX_ENTRIES: Final = 10_000


class _ImageTar(LimitedTarFile):
    max_headers = 4 * 1024 * 1024
    """Much less than usual, since all entries are kept."""


class _SavedImage(msgspec.Struct):
    config: str = msgspec.field(name="Config")
    layers: list[str] = msgspec.field(name="Layers")


def read_archive(path: Path, blobs: Blobs) -> Image:
    """Copy the image in a tar into ``blobs``; blocking.

    Raises ``InvalidArgumentError`` for a file that is no image, ``DataLossError`` for damage.
    """
    try:
        with _ImageTar.open(path, "r:*") as tar:
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
        saved = decode(self._json("manifest.json"), list[_SavedImage], "manifest.json")
        if len(saved) != 1:
            raise InvalidArgumentError(f"the archive has {len(saved)} images: save one alone")
        if len(saved[0].layers) > MAX_LAYERS:
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
        if len(manifest.layers) > MAX_LAYERS:
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
        return self._blobs.put(read_chunks(file), digest)

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
