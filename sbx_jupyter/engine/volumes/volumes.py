"""Creates, lists, mounts and removes volumes, and issues their tokens (interface 1.6.1)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import re
import secrets
import threading
import uuid
from typing import TYPE_CHECKING, Final

import jwt

from sbx_jupyter.engine.owners import caller, may_use
from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.state.keys import load_or_make_key
from sbx_jupyter.engine.state.rows import VolumeRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import (
    InvalidArgumentError,
    NotFoundError,
    SbxError,
    UnauthenticatedError,
    UnavailableError,
)
from sbx_jupyter.protocol.catalogue import VolumeDetail
from sbx_jupyter.protocol.volumes import Volume, VolumeAndToken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.volumes.subordinate import SubordinateVolumes
    from sbx_jupyter.isolation.privileged.remote_trees import AnyTrees, AnyVolume
    from sbx_jupyter.protocol.platform import VolumeMount

TOKEN_LIFETIME: Final = dt.timedelta(days=7)
_AUDIENCE: Final = "volume-content"
_ISSUER: Final = "sbx-jupyter"
_KERNEL_VIEWS: Final = ("dev", "proc", "sys")
_CLOSING_TIMEOUT: Final = 1.0
_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


class Volumes:
    """The volumes of one data directory."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        stored: AnyTrees | SubordinateVolumes,
        *,
        real_ids: bool,
        size: int = 0,
        check_quota: Callable[[str], None] = lambda owner: None,
        removals: UnfinishedRemovals | None = None,
    ) -> None:
        """``size``: what a new volume may hold, in bytes, where the file system can limit it.

        ``check_quota`` raises ``ResourceExhaustedError`` if an owner may make no more volumes.
        ``removals`` takes up again what fails because the helper was killed.
        """
        self._removals = removals or UnfinishedRemovals()
        self._check_quota = check_quota
        self._store = store
        self._stored = stored
        self._root = data_dir / "volumes"
        self._removed = data_dir / "volumes-removed"
        self._real_ids = real_ids
        self._size = size
        self._creating = asyncio.Lock()
        """Held until a new volume is stored: in between, its name would look free."""
        self._key = load_or_make_key(data_dir / "volumes.key", lambda: secrets.token_bytes(32))
        self._work = BackgroundTasks()
        self._is_closing = threading.Event()
        self._removing: asyncio.Task[None] | None = None
        self._is_more_retired = False
        """Whether a volume was retired since the removal looked for what there is."""

    async def recover(self) -> None:
        """Make the directories, and finish removals that a crash interrupted."""
        for folder in (self._root, self._removed):
            folder.mkdir(mode=0o700, exist_ok=True)
        for name in leftovers.directories(self._root, leftovers.UUID):
            if name not in self._store.volumes:
                await self._retire(name)
        self._remove_in_background()

    async def aclose(self) -> None:
        """Stop removals that take longer than a second; the next engine does what is left."""
        await self._work.drain(_CLOSING_TIMEOUT)
        self._is_closing.set()
        await self._work.drain()

    async def create(self, name: str) -> VolumeAndToken:
        """Make a volume.

        Raises ``InvalidArgumentError`` for a bad name or one in use, ``NoSpaceError``,
        ``ResourceExhaustedError`` when the quota of its owner is used up.
        """
        if not _NAME.match(name):
            raise InvalidArgumentError(
                "Volume name must have only letters, digits, underscores and dashes"
            )
        return await self._work.complete(self._create_alone(name), "sbx-volume-creation")

    async def _create_alone(self, name: str) -> VolumeAndToken:
        async with self._creating:
            return await self._create(name)

    async def _create(self, name: str) -> VolumeAndToken:
        owner = caller().owner
        if self._find_by_name(name, owner) is not None:
            raise InvalidArgumentError(f"Volume with name '{name}' already exists")
        self._check_quota(owner)
        row = VolumeRow(volume_id=str(uuid.uuid4()), name=name, created_at=now(), owner=owner)
        try:
            await asyncio.to_thread(self._stored.make_volume, row.volume_id, self._size)
            reached("volume.made")
            await self._store.commit(Batch().put(row))
        except (OSError, SbxError) as error:
            await self._retire(row.volume_id)
            raise translate(error, "making a volume") from error
        reached("volume.stored")
        return self._with_token(row)

    def list(self) -> list[Volume]:
        """All volumes that the caller may use, oldest first, without tokens."""
        usable = (row for row in self._store.volumes if may_use(row.owner))
        rows = sorted(usable, key=lambda row: row.created_at)
        return [Volume(volume_id=row.volume_id, name=row.name) for row in rows]

    def details(self, sizes: Mapping[str, int]) -> Sequence[VolumeDetail]:
        """Like ``list``, with the sandboxes that mount each; ``sizes`` by id, where measured."""
        usable = (row for row in self._store.volumes if may_use(row.owner))
        return [
            VolumeDetail(
                volume_id=row.volume_id,
                name=row.name,
                created_at=row.created_at,
                own_bytes=sizes.get(row.volume_id),
                sandboxes=[
                    sandbox.sandbox_id
                    for sandbox in self._store.sandboxes
                    if sandbox.owner == row.owner
                    and any(mount.name == row.name for mount in sandbox.volume_mounts)
                ],
            )
            for row in sorted(usable, key=lambda row: row.created_at)
        ]

    def get(self, volume_id: str) -> VolumeAndToken:
        """A volume and a fresh token; raises ``InvalidArgumentError``, ``NotFoundError``."""
        return self._with_token(self._row(volume_id))

    async def remove(self, volume_id: str) -> None:
        """Remove a volume at once, and its data in the background.

        A sandbox that has it mounted sees the directory being emptied; no other volume ever uses
        that directory.
        """
        row = self._row(volume_id)
        await self._work.complete(self._remove(row), "sbx-volume-removal")

    async def _remove(self, row: VolumeRow) -> None:
        await self._store.commit(Batch().remove(VolumeRow, row.volume_id))
        reached("volume.forgotten")
        await self._retire(row.volume_id)
        reached("volume.moved")

    async def _retire(self, volume_id: str) -> None:
        """Remove a directory that no row names; what fails is taken up again later."""
        try:
            await self._retire_once(volume_id)
        except (OSError, SbxError) as error:
            _log.warning("the volume %s is not removed yet: %s", volume_id, error)
            self._removals.add(f"volume {volume_id}", lambda: self._retire_once(volume_id))

    async def _retire_once(self, volume_id: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # an earlier try came as far
            await asyncio.to_thread(self._stored.retire_volume, volume_id)
        self._remove_in_background()

    def open(self, volume_id: str, token: str) -> AnyVolume:
        """Open the content of a volume with its token.

        Raises ``UnauthenticatedError``, ``NotFoundError``.
        """
        row = self._row(volume_id)
        try:
            claims = jwt.decode(
                token, self._key, algorithms=["HS256"], audience=_AUDIENCE, issuer=_ISSUER
            )
        except jwt.InvalidTokenError as error:
            raise UnauthenticatedError("the volume token is invalid or expired") from error
        if claims.get("volid") != row.volume_id:
            raise UnauthenticatedError("the token belongs to another volume")
        return self._stored.volume(row.volume_id, real_ids=self._real_ids)

    def mounts(
        self, mounts: Sequence[VolumeMount], owner: str = ""
    ) -> tuple[tuple[Path, str], ...]:
        """The directory and mount point of each mount of volumes of ``owner``.

        Raises ``InvalidArgumentError`` with a line per bad mount (interface 1.6.3).
        """
        problems: list[str] = []
        found: list[tuple[Path, str]] = []
        for index, mount in enumerate(mounts):
            row = self._find_by_name(mount.name, owner)
            if row is None:
                problems.append(f"- volume mount #{index}: volume '{mount.name}' not found")
            elif problem := _path_problem(mount.path):
                problems.append(f"- volume mount #{index}: {problem}")
            elif any(path == mount.path for _, path in found):
                problems.append(f"- volume mount #{index}: path '{mount.path}' is used twice")
            else:
                found.append((self._directory(row), mount.path))
        if problems:
            raise InvalidArgumentError("\n".join(["invalid mounts:", *problems]))
        return tuple(found)

    def directories(self, mounts: Sequence[VolumeMount], owner: str = "") -> list[Path]:
        """The directories of those volumes of ``owner`` that exist."""
        rows = (self._find_by_name(mount.name, owner) for mount in mounts)
        return [self._directory(row) for row in rows if row is not None]

    def _directory(self, row: VolumeRow) -> Path:
        return self._root / row.volume_id

    def _row(self, volume_id: str) -> VolumeRow:
        try:
            key = str(uuid.UUID(volume_id))
        except ValueError as error:
            raise InvalidArgumentError("Invalid volume ID") from error
        row = self._store.volumes.get(key)
        if row is None or not may_use(row.owner):
            raise NotFoundError(f"Volume '{volume_id}' not found")
        return row

    def _find_by_name(self, name: str, owner: str) -> VolumeRow | None:
        rows = self._store.volumes
        return next((row for row in rows if row.name == name and row.owner == owner), None)

    def _with_token(self, row: VolumeRow) -> VolumeAndToken:
        issued = now()
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "iat": issued,
            "nbf": issued - dt.timedelta(minutes=1),
            "exp": issued + TOKEN_LIFETIME,
            "jti": secrets.token_hex(8),
            "volid": row.volume_id,
        }
        token = jwt.encode(claims, self._key, algorithm="HS256")
        return VolumeAndToken(volume_id=row.volume_id, name=row.name, token=token)

    def _remove_in_background(self) -> None:
        self._is_more_retired = True
        # One task and one thread for all: a sandbox may make the removal of a volume take long.
        if self._removing is None or self._removing.done():
            self._removing = self._work.spawn(self._remove_retired(), "sbx-volume-removal")

    async def _remove_retired(self) -> None:
        while self._is_more_retired:
            self._is_more_retired = False
            names = await asyncio.to_thread(leftovers.directories, self._removed, leftovers.UUID)
            for name in names:
                try:
                    await self._remove_content(name)
                except _ClosingError:
                    return
                except (OSError, SbxError) as error:
                    # A sandbox that has it mounted may add files, without end.
                    _log.warning("the volume %s is not removed entirely: %s", name, error)
                    if isinstance(error, TimeoutError):
                        continue  # the next removal of any volume goes on with it
                    again = functools.partial(self._remove_content, name)
                    self._removals.add(f"content of volume {name}", again)

    async def _remove_content(self, name: str) -> None:
        """Raises ``OSError`` and ``SbxError``; ``_ClosingError`` when the engine stops."""
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(self._stored.remove_retired, name, self._go_on)

    def _go_on(self) -> None:
        if self._is_closing.is_set():
            raise _ClosingError("the engine stops")


class _ClosingError(UnavailableError):
    """The next engine does the rest."""


def _path_problem(path: str) -> str | None:
    if not path.startswith("/"):
        return f"path '{path}' is not absolute"
    parts = path.split("/")[1:]
    if path == "/" or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        return f"path '{path}' is not clean"
    if parts[0] in _KERNEL_VIEWS:
        return f"path '{path}' is in /{parts[0]}, which shows the kernel"
    return None
