"""Copies a writable layer while its sandbox runs, and brings the copy up to date once it is frozen.

The sandbox may change the tree while it is read, with malice: nothing but the tree is ever read.
What a first pass got wrong or missed has a later change time, and the second pass, with everything
still, copies it anew.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.removal import remove
from sbx_jupyter.isolation.trees.copying import FOLDER, FULL, Copier, entries, finish
from sbx_jupyter.isolation.zygote.progress import Cancelled

if TYPE_CHECKING:
    from sbx_jupyter.isolation.zygote.progress import Progress

_CLOCK_STEP: Final = 20_000_000
"""Change times come from a clock that ticks every few milliseconds."""

_BLOCK: Final = 512


class Mirror:
    """One copy of one tree. ``since_ns``: only what changed from then on, in an existing copy.

    ``still`` says that nothing changes meanwhile: then every failure counts. Otherwise what
    vanishes or changes its kind is left to the second pass.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        since_ns: int = 0,
        still: bool,
        progress: Progress | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._since = since_ns - _CLOCK_STEP
        self._still = still
        self._copier = Copier(target, progress)

    def run(self) -> None:
        """Make or refresh the copy. Raises ``OSError``, ``Cancelled`` among them."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._target, 0o700)
        source, target = os.open(self._source, FOLDER), os.open(self._target, FOLDER)
        try:
            self._folder(source, target, "")
        finally:
            os.close(source)
            os.close(target)

    def _folder(self, source: int, target: int, path: str) -> None:
        status = os.fstat(source)
        changed = status.st_ctime_ns >= self._since
        found_here = entries(source)
        there: set[str] = set()
        touched = changed
        if self._since > 0:
            if changed:
                self._remove_gone(target, found_here)
            there.update(os.listdir(target))
        for name, found in found_here.items():
            is_folder = stat.S_ISDIR(found.st_mode)
            if not is_folder and found.st_ctime_ns < self._since and name in there:
                continue
            # A file that takes the place of another changes the times of its folder's copy.
            touched = touched or not is_folder or name not in there
            try:
                if is_folder:
                    self._enter(source, target, f"{path}/{name}", name)
                else:
                    if name in there:
                        os.unlink(name, dir_fd=target)
                    self._copier.copy(source, target, f"{path}/{name}", name, found)
            except Cancelled:
                raise
            except OSError as error:
                if self._still or error.errno in FULL:
                    raise
        if touched:
            self._copier.count(status.st_blocks * _BLOCK)
            finish(source, target, status)

    def _remove_gone(self, target: int, kept_entries: dict[str, os.stat_result]) -> None:
        for name in os.listdir(target):
            kept = kept_entries.get(name)
            mode = os.stat(name, dir_fd=target, follow_symlinks=False).st_mode
            if kept is None or stat.S_IFMT(kept.st_mode) != stat.S_IFMT(mode):
                remove(name, directory=target, opens_closed=True)

    def _enter(self, source: int, target: int, path: str, name: str) -> None:
        inner = os.open(name, FOLDER, dir_fd=source)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=target)
            made = os.open(name, FOLDER, dir_fd=target)
            try:
                self._folder(inner, made, path)
            finally:
                os.close(made)
        finally:
            os.close(inner)
