"""The media type of a file: by its extension from the system's tables, else by its first bytes."""

from __future__ import annotations

import contextlib
import functools
import mimetypes
from pathlib import Path
from typing import Final

_BINARY: Final = "application/octet-stream"
_GLOBS: Final = (Path("/usr/local/share/mime/globs2"), Path("/usr/share/mime/globs2"))
_WEB: Final = {
    ".avif": "image/avif",
    ".css": "text/css",
    ".gif": "image/gif",
    ".htm": "text/html",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".xml": "text/xml",
}
"""Types that browsers depend on; the same on all machines."""
_USUAL: Final = {
    ".gz": "application/gzip",
    ".ipynb": "application/x-ipynb+json",
    ".md": "text/markdown",
    ".sh": "application/x-sh",
    ".toml": "application/toml",
    ".woff2": "font/woff2",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""For machines whose tables lack them."""
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
)


def content_type(name: str, beginning: bytes) -> str:
    """The type of a file by its extension, else by its first bytes."""
    dot = name.rpartition("/")[2].rfind(".")
    extension = name.rpartition("/")[2][dot:].lower() if dot >= 0 else ""
    kind = _table().get(extension) or _sniff(beginning)
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def type_by_name(name: str) -> str:
    """The type of a file by its extension alone."""
    return content_type(name, b"\0")


@functools.cache
def _table() -> dict[str, str]:
    """The types by extension: those of the web, the system's, and the usual ones."""
    plain = mimetypes.MimeTypes(tuple(path for path in mimetypes.knownfiles if Path(path).exists()))
    globs: dict[str, str] = {}
    for path in _GLOBS:
        with contextlib.suppress(OSError):
            globs = parse_globs(path.read_text("utf-8", "replace")) | globs
    return {**_USUAL, **plain.types_map[True], **globs, **_WEB}


def parse_globs(text: str) -> dict[str, str]:
    """The types by extension in a ``globs2`` file, the first of each, which has most weight."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        weight, _, rest = line.partition(":")
        kind, _, pattern = rest.partition(":")
        extension = pattern.partition(":")[0].removeprefix("*")
        if weight.isdigit() and pattern.startswith("*.") and not set(extension) & set("*?["):
            found.setdefault(extension, kind)
    return found


def _sniff(beginning: bytes) -> str:
    for magic, kind in _MAGIC:
        if beginning.startswith(magic):
            return kind
    if b"\0" in beginning:
        return _BINARY
    try:
        beginning[: len(beginning) - 3].decode()
    except UnicodeDecodeError:
        return _BINARY
    return "text/plain"
