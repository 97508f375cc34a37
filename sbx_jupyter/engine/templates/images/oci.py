"""The JSON documents of container images: manifests, indexes and configurations (OCI)."""

from __future__ import annotations

import hashlib
import platform
import re
from typing import Final, TypeVar

import msgspec

from sbx_jupyter.errors import InvalidArgumentError

T = TypeVar("T")

MAX_JSON: Final = 8 * 1024 * 1024
MAX_LAYERS: Final = 200
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageLayer(msgspec.Struct, frozen=True):
    """One layer: the digest of its blob, and the digest of its uncompressed content."""

    blob: str
    diff_id: str


class Image(msgspec.Struct, frozen=True):
    """The parts of an image that builds need: digest, layers from the lowest, variables."""

    digest: str
    layers: list[ImageLayer]
    envs: dict[str, str]


class Platform(msgspec.Struct):
    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct):
    """A reference from one document of an image to another."""

    digest: str
    size: int = 0
    media_type: str = msgspec.field(name="mediaType", default="")
    platform: Platform | None = None


class Manifest(msgspec.Struct):
    config: Descriptor
    layers: list[Descriptor]


class Index(msgspec.Struct):
    manifests: list[Descriptor] = []


def is_index(raw: bytes) -> bool:
    """Whether a document lists images of several platforms."""
    return bool(decode(raw, Index, "the manifest of the image").manifests)


def choose(index: Index) -> Descriptor:
    """Choose the image for this machine; raises ``InvalidArgumentError``."""
    wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
    for found in index.manifests:
        target = found.platform
        if target is None or (target.architecture, target.os) == (wanted, "linux"):
            return found
    raise InvalidArgumentError(f"there is no image for linux/{wanted}")


def check_digest(text: str) -> str:
    """Check a sha256 digest; raises ``InvalidArgumentError``."""
    if not _DIGEST.match(text):
        raise InvalidArgumentError(f"'{text[:100]}' is no sha256 digest")
    return text


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _RuntimeConfig(msgspec.Struct):
    Env: list[str] | None = None


class ImageConfig(msgspec.Struct):
    """The parts of an image's configuration that builds need."""

    rootfs: _RootFs
    config: _RuntimeConfig | None = None
    architecture: str = ""


def read_config(raw: bytes) -> ImageConfig:
    """Decode the configuration of an image; raises ``InvalidArgumentError``."""
    return decode(raw, ImageConfig, "the configuration of the image")


def decode(raw: bytes, kind: type[T], what: str) -> T:
    """Decode a JSON document of an image; raises ``InvalidArgumentError``."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{what} cannot be read: {error}") from error


def assemble(config_raw: bytes, blobs: list[str]) -> Image:
    """Make an image from its configuration and the blobs of its layers, the lowest first."""
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
