"""Plans and makes one copy of files and folders from one place to another."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
)
from sbx_jupyter.server.copies.places import inner_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sbx_jupyter.server.copies.places import Found, Place

MAX_ENTRIES: Final = 20_000
MAX_FAILURES: Final = 100
"""Failures that are named; the others are counted."""

AT_ONCE: Final = 3
MAX_NAMES: Final = 1000
EXISTING: Final = ("fail", "replace", "skip", "keep")


@dataclass(frozen=True, slots=True)
class Job:
    """One file or folder to copy; ``target`` includes its new name."""

    source: str
    target: str


@dataclass(slots=True)
class Progress:
    """The progress of a copy, and what did not succeed."""

    files: int = 0
    all_files: int = 0
    bytes: int = 0
    all_bytes: int = 0
    copied: int = 0
    skipped: list[str] = field(default_factory=list[str])
    links: int = 0
    """Links to folders, and what is neither file nor folder: left out."""

    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    failure_count: int = 0

    def fail(self, name: str, error: SbxError) -> None:
        """Note an entry that was not copied, and the reason."""
        self.failure_count += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append((name, error.message))


class Copy:
    """Copies jobs from ``source`` to ``target``.

    ``existing`` says what happens to a job whose target is there: ``fail``, ``replace`` (folders
    are joined), ``skip``, or ``keep`` both, the copy under a free name.
    """

    def __init__(self, source: Place, target: Place, existing: str) -> None:
        self._source = source
        self._target = target
        self._existing = existing
        self._directories: list[str] = []
        self._files: list[tuple[Found, str]] = []
        self.progress = Progress()

    async def plan(self, jobs: list[Job]) -> None:
        """List what is to be copied, before anything is written.

        Raises ``NotFoundError`` for a source that is not there, ``ResourceExhaustedError`` when
        there is too much.
        """
        for job in jobs:
            found = await self._source.find(job.source)
            if found is None:
                raise NotFoundError(f"'{job.source}' is not there")
            try:
                target = await self._free_target(found, job.target)
            except SbxError as error:
                self.progress.fail(job.source, error)
                continue
            if target is not None:
                await self._plan_one(found, job.source, target)
        self.progress.all_files = len(self._files)
        self.progress.all_bytes = sum(found.size for found, _ in self._files)

    async def run(self) -> None:
        """Copy what was planned; a file that fails does not stop the others."""
        failed: set[str] = set()
        for directory in self._directories:
            try:
                if directory.rpartition("/")[0] in failed:
                    failed.add(directory)
                else:
                    await self._target.make_dir(directory)
            except SbxError as error:
                failed.add(directory)
                self.progress.fail(directory, error)
        rest = iter([pair for pair in self._files if pair[1].rpartition("/")[0] not in failed])
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work(rest))

    async def _free_target(self, found: Found, target: str) -> str | None:
        """The path to copy a job to; ``None`` to skip it. Raises ``AlreadyExistsError``."""
        there = await self._target.find(target)
        if there is None:
            return target
        if self._existing == "skip":
            self.progress.skipped.append(target)
            return None
        if self._existing == "keep":
            folder, slash, name = target.rpartition("/")
            return f"{folder}{slash}{free_name(name, await self._target.names(folder or slash))}"
        if self._existing == "fail":
            raise AlreadyExistsError(f"'{target}' is there already")
        if there.kind != found.kind:
            raise AlreadyExistsError(f"'{target}' is there already, and is a {there.kind}")
        return target

    async def _plan_one(self, found: Found, source: str, target: str) -> None:
        if found.kind == "file":
            self._add(found, target)
            return
        if found.kind != "directory":
            raise InvalidArgumentError(f"'{source}' is neither a file nor a folder")
        self._add_directory(target)
        root = found.path
        async with contextlib.aclosing(self._source.tree(root)) as tree:
            async for each in tree:
                try:
                    path = f"{target.rstrip('/')}/{inner_path(root, each)}"
                except SbxError as error:
                    self.progress.fail(each.path, error)
                    continue
                if each.kind == "file":
                    self._add(each, path)
                elif each.is_link or each.kind == "other":
                    self.progress.links += 1
                    self._check_count()
                else:
                    self._add_directory(path)

    def _add(self, found: Found, target: str) -> None:
        self._files.append((found, target))
        self._check_count()

    def _add_directory(self, target: str) -> None:
        self._directories.append(target)
        self._check_count()

    def _check_count(self) -> None:
        progress = self.progress
        count = len(self._files) + len(self._directories) + progress.links + progress.failure_count
        if count > MAX_ENTRIES:
            raise ResourceExhaustedError(
                f"there are more than {MAX_ENTRIES} files and folders: pack them first"
            )

    async def _work(self, rest: Iterator[tuple[Found, str]]) -> None:
        for found, target in rest:
            try:
                async with self._source.read(found) as chunks:
                    await self._target.write(target, self._noted(chunks))
            except SbxError as error:
                self.progress.fail(target, error)
            else:
                self.progress.copied += 1
            self.progress.files += 1

    async def _noted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.progress.bytes += len(chunk)
            yield chunk


def free_name(name: str, taken: set[str]) -> str:
    """The name, numbered before its extension; raises ``AlreadyExistsError`` if all are taken."""
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    for count in range(1, MAX_NAMES):
        if (candidate := f"{stem}-Copy{count}{dot}{extension}") not in taken:
            return candidate
    raise AlreadyExistsError(f"there are too many files named like '{name}'")
