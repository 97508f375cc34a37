"""Opens image layers that are uncompressed or compressed by gzip or zstd."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from typing import IO, TYPE_CHECKING, Final, cast

from sbx_jupyter.errors import DataLossError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MAX_WINDOW: Final = 27
"""The largest window of a zstd frame, as a power of two bytes: the default limit of ``zstd``."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"


def is_zstd(path: Path) -> bool:
    """Whether a file is compressed by zstd; blocking."""
    with path.open("rb") as file:
        head = file.read(4)
    # Frames to be skipped may come first: some services put tables of contents there.
    return head == _ZSTD or (head[1:] == _SKIPPABLE and 0x50 <= head[0] <= 0x5F)


@contextlib.contextmanager
def open_uncompressed(path: Path) -> Generator[IO[bytes]]:
    """The uncompressed content of a layer as a stream; blocking.

    Raises ``DataLossError`` for a layer that is damaged or asks for too much memory.
    """
    with path.open("rb") as raw:
        head = raw.read(2)
        raw.seek(0)
        try:
            if head == _GZIP:
                yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
            elif is_zstd(path):
                options = {int(zstd.DecompressionParameter.window_log_max): MAX_WINDOW}
                yield cast("IO[bytes]", zstd.ZstdFile(raw, options=options))
            else:
                yield raw
        except (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
            raise DataLossError(f"the layer cannot be uncompressed: {error}") from error
