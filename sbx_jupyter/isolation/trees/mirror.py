"""Copies a writable layer while its sandbox runs, and brings the copy up to date once it is frozen.

The sandbox may change the tree while it is read, with malice: nothing but the tree is ever read.
What a first pass got wrong or missed has a later change time, and the second pass, with everything
still, copies it anew.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.isolation.trees.copying import FULL, Copier, entries, finish
from sbx_jupyter.isolation.trees.descent import FOLDER, Descent, MovedError, descent_into
from sbx_jupyter.isolation.zygote.progress import Cancelled

if TYPE_CHECKING:
    from collections.abc import Generator

    from sbx_jupyter.isolation.zygote.progress import Progress

_CLOCK_STEP: Final = 20_000_000
"""Change times come from a clock that ticks every few milliseconds."""

_BLOCK: Final = 512
_SOURCE: Final = 0
_TARGET: Final = 1


@dataclass(slots=True)
class _Visit:
    """A directory that is being copied."""

    status: os.stat_result
    pending: list[tuple[str, os.stat_result]]
    there: set[str]
    """What its copy had before."""
    touched: bool


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
        with descent_into([self._source, self._target]) as descent:
            self._walk(descent)

    def _walk(self, descent: Descent) -> None:
        visits = [self._visit(descent.descriptor(_SOURCE), descent.descriptor(_TARGET))]
        while visits:
            visit = visits[-1]
            if visit.pending:
                with self._passing_over(visit):
                    if below := self._take(descent, visit, *visit.pending.pop()):
                        visits.append(below)
                continue
            visits.pop()
            if not visits:
                self._finish(descent, visit)
                return
            with self._passing_over(visit):
                self._finish(descent, visit)
            descent.leave()

    @contextlib.contextmanager
    def _passing_over(self, visit: _Visit) -> Generator[None]:
        """Leave what fails meanwhile to the second pass, unless everything is still."""
        try:
            yield
        except Cancelled:
            raise
        except OSError as error:
            if self._still or error.errno in FULL:
                raise
            if isinstance(error, MovedError):
                visit.pending.clear()  # each would have to be looked for from the top

    def _visit(self, source: int, target: int) -> _Visit:
        """Begin with a directory: see what it has, and remove from its copy what is gone."""
        status = os.fstat(source)
        changed = status.st_ctime_ns >= self._since
        found_here = entries(source)
        there: set[str] = set()
        if self._since > 0:
            if changed:
                self._remove_gone(target, found_here)
            there.update(os.listdir(target))
        return _Visit(status, list(found_here.items()), there, changed)

    def _take(
        self, descent: Descent, visit: _Visit, name: str, found: os.stat_result
    ) -> _Visit | None:
        """Copy an entry; one that is a directory is entered and still to be copied."""
        is_folder = stat.S_ISDIR(found.st_mode)
        if not is_folder and found.st_ctime_ns < self._since and name in visit.there:
            return None
        # A file that takes the place of another changes the times of its folder's copy.
        visit.touched = visit.touched or not is_folder or name not in visit.there
        source, target = descent.descriptor(_SOURCE), descent.descriptor(_TARGET)
        if is_folder:
            return self._enter(descent, source, target, name)
        if name in visit.there:
            os.unlink(name, dir_fd=target)
        self._copier.copy(source, target, descent, name, found)
        return None

    def _enter(self, descent: Descent, source: int, target: int, name: str) -> _Visit:
        opened = [os.open(name, FOLDER, dir_fd=source)]
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=target)
            opened.append(os.open(name, FOLDER, dir_fd=target))
            visit = self._visit(*opened)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        descent.enter(name, dict(enumerate(opened)))
        return visit

    def _finish(self, descent: Descent, visit: _Visit) -> None:
        if visit.touched:
            self._copier.count(visit.status.st_blocks * _BLOCK)
            finish(descent.descriptor(_SOURCE), descent.descriptor(_TARGET), visit.status)

    def _remove_gone(self, target: int, kept_entries: dict[str, os.stat_result]) -> None:
        for name in os.listdir(target):
            kept = kept_entries.get(name)
            mode = os.stat(name, dir_fd=target, follow_symlinks=False).st_mode
            if kept is None or stat.S_IFMT(kept.st_mode) != stat.S_IFMT(mode):
                remove(name, directory=target, opens_closed=True)
