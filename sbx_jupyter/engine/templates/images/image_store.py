"""The container images that builds start from: imported or pulled, and unpacked once."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.state.rows import ImageRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.images.current_connection import CurrentConnection
from sbx_jupyter.engine.templates.images.image_archives import read_archive
from sbx_jupyter.engine.templates.images.registry import ImageName, ImagePuller, parse_image_name
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import (
    DataLossError,
    InternalError,
    InvalidArgumentError,
    SbxError,
    UnavailableError,
    see,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.templates.images.blobs import Blobs
    from sbx_jupyter.engine.templates.images.oci import Image
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.protocol.templates import Registry

_MAX_IMAGES: Final = 20
_PULL_LIMIT: Final = 3600
"""Seconds for a whole image, however slowly the registry sends it."""

_SPARE: Final = 256 * 1024 * 1024
_PULLED: Final = "pulled "
_BY: Final = " by "
"""Separates the reference and the owner in the name of a pulled image; the operator's has none."""

_STOCK: Final = {
    "e2bdev/base": "base",
    "e2bdev/code-interpreter": "code-interpreter-v1",
}


class ImageStore:
    """Finds, imports, pulls and unpacks container images."""

    def __init__(
        self, context: Context, fence: AnyFence, blobs: Blobs, *, can_unpack: bool
    ) -> None:
        self._context = context
        self._fence = fence
        self._blobs = blobs
        self._can_unpack = can_unpack
        self._lock = asyncio.Lock()

    @staticmethod
    def stock_for(name: str) -> str | None:
        """The stock template that is used instead of a default image of clients."""
        return _STOCK.get(name.strip().removeprefix("docker.io/").partition(":")[0])

    async def find(
        self,
        name: str,
        credentials: Registry | None,
        *,
        owner: str = "",
        force: bool,
        say: Callable[[str], None],
    ) -> ImageRow:
        """The unpacked image of a name: imported under this name, or pulled.

        When the registry cannot be reached, the image is used that ``owner`` pulled before. Raises
        ``SbxError``.
        """
        self._check_tier()
        reference = parse_image_name(name)
        imported = self._find_by_name(str(reference))
        if imported is not None:
            return await self._touch(imported)
        pulled = f"{_PULLED}{reference}" + (f"{_BY}{owner}" if owner else "")
        try:
            # Without the lock: a registry may take long over its answers.
            image = await self._pull(reference, credentials, owner, say)
        except UnavailableError as error:
            known = self._find_by_name(pulled)
            if known is None or force:
                raise
            say(f"{error.message}: the image that was pulled before is used")
            return await self._touch(known)
        async with self._lock:
            return await self._unpack(image, pulled, owner, say)

    async def take_archive(self, path: Path, name: str) -> ImageRow:
        """Import the image of a tar under a name that ``fromImage`` finds (``template import``)."""
        self._check_tier()
        reference = parse_image_name(name)
        async with self._lock:
            try:
                image = await asyncio.to_thread(read_archive, path, self._blobs)
                return await self._unpack(image, str(reference), "", lambda _: None)
            except OSError as error:
                raise translate(error, "importing the image") from error
            except DataLossError as error:
                raise InvalidArgumentError(error.message) from error

    def _check_tier(self) -> None:
        if not self._can_unpack:
            raise InvalidArgumentError(
                "container images need isolation by namespaces, which this engine does not have"
                f"{see('tiers')}"
            )

    def _find_by_name(self, name: str) -> ImageRow | None:
        for row in self._context.store.images:
            if name in row.names:
                return row
        return None

    async def _pull(
        self,
        name: ImageName,
        credentials: Registry | None,
        owner: str,
        say: Callable[[str], None],
    ) -> Image:
        loop = asyncio.get_running_loop()
        connection = CurrentConnection()

        def say_on_loop(text: str) -> None:
            loop.call_soon_threadsafe(say, text)

        def pull() -> Image:
            puller = ImagePuller(name, credentials, connection, owner=owner)
            return puller.pull(self._blobs, say_on_loop)

        try:
            async with asyncio.timeout(_PULL_LIMIT):
                return await asyncio.to_thread(pull)
        except TimeoutError as error:
            raise UnavailableError(
                f"the registry {name.host} took longer than {_PULL_LIMIT} seconds"
            ) from error
        finally:
            connection.end()  # the thread would wait for ever when the build is cancelled

    async def _unpack(
        self, image: Image, name: str, owner: str, say: Callable[[str], None]
    ) -> ImageRow:
        """Unpack an image, unless it is there and ``owner`` has had its content."""
        known = self._context.store.images.get(image.digest)
        if known is not None and (not owner or _was_pulled_by(known, owner)):
            return await self._store(replace(known, names=(*known.names, name)), name)
        say(f"Unpacking {len(image.layers)} layers")
        try:
            # Also of a known image: its digest says what the layers should be, and not that this
            # owner's registry had them.
            await asyncio.to_thread(self._check, image)
            known = self._context.store.images.get(image.digest)  # it may be removed meanwhile
            if known is not None:
                row = await self._store(replace(known, names=(*known.names, name)), name)
            else:
                row = await self._unpack_new(image, name)
        finally:
            await asyncio.to_thread(self._blobs.remove_copies, image.layers)
        await asyncio.to_thread(self._blobs.prune)
        return row

    async def _unpack_new(self, image: Image, name: str) -> ImageRow:
        async with self._context.layers.reserve() as layer:
            await self._unpack_to(layer, image)
            reached("image.unpacked")
            row = ImageRow(
                key=image.digest, names=(name,), layers=(layer,), envs=image.envs, used_at=now()
            )
            return await self._store(row, name)

    async def _unpack_to(self, layer: str, image: Image) -> None:
        target = self._context.data_dir.path / layer
        try:
            await self._fence.tree_operations.unpack(
                await asyncio.to_thread(self._blobs.unpackable, image.layers), target
            )
        except SbxError as error:
            error = translate(error, "unpacking the image")
            if isinstance(error, InternalError):
                error = InvalidArgumentError(f"the image cannot be unpacked: {error.message}")
            raise error from None
        await self._context.layers.sync(layer)

    def _check(self, image: Image) -> None:
        left = shutil.disk_usage(self._context.data_dir.path).free - _SPARE
        for part in image.layers:
            left -= self._blobs.check_layer(part, left)

    async def _touch(self, row: ImageRow) -> ImageRow:
        row = replace(row, used_at=now())
        await self._context.commit(Batch().put(row))
        return row

    async def _store(self, row: ImageRow, name: str) -> ImageRow:
        """Store an image under a name, taking it from others; evict the least recently used."""
        row = replace(row, names=tuple(dict.fromkeys(row.names)), used_at=now())
        batch = Batch().put(row)
        others = [other for other in self._context.store.images if other.key != row.key]
        others.sort(key=lambda other: other.used_at, reverse=True)
        evicted: list[str] = []
        for place, other in enumerate(others):
            if place >= _MAX_IMAGES - 1:
                batch.remove(ImageRow, other.key)
                evicted.extend(other.layers)
            elif name in other.names:
                names = tuple(known for known in other.names if known != name)
                batch.put(replace(other, names=names))
        await self._context.commit(batch)
        self._context.cleaning.spawn(self._context.layers.collect(tuple(evicted)), "sbx-collect")
        return row


def _was_pulled_by(row: ImageRow, owner: str) -> bool:
    """Whether a registry gave the whole image to ``owner`` before."""
    pulled = (name for name in row.names if name.startswith(_PULLED))
    return any(name.partition(_BY)[2] == owner for name in pulled)
