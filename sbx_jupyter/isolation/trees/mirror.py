"""Copies a writable layer while its sandbox runs, and brings the copy up to date once it is frozen.

The sandbox may change the tree while it is read, with malice: nothing but the tree is ever read.
Files that the first pass got wrong or missed have a later change time, and the second pass, when
nothing changes any more, copies them anew. So it does with a directory that is not the one of which
its copy was made.
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
    from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
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
    """Names of the entries that its copy had before."""
    touched: bool


class Mirror:
    """One copy of one tree. ``since_ns``: only what changed from then on, in an existing copy.

    ``still`` says that nothing changes meanwhile: then every failure counts. Otherwise what
    vanishes or changes its kind is left to the second pass. Both passes get the same ``copied``;
    a second pass without it copies everything anew.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        since_ns: int = 0,
        still: bool,
        copied: CopiedDirectories | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._since = since_ns - _CLOCK_STEP
        self._still = still
        self._copied = copied
        self._made_of = copied.read() if copied is not None and since_ns else {}
        """The inode number of the source of each copied directory, by that of the copy."""
        self._copier = Copier(target, progress)

    def run(self) -> None:
        """Make or refresh the copy. Raises ``OSError``, ``Cancelled`` among them."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._target, 0o700)
        with descent_into([self._source, self._target]) as descent:
            self._walk(descent)
        if self._copied is not None:
            self._copied.flush()

    def _walk(self, descent: Descent) -> None:
        visits = [self._visit(descent.descriptor(_SOURCE), descent.descriptor(_TARGET))]
        while visits:
            visit = visits[-1]
            while visit.pending:
                try:
                    below = self._take(descent, visit, *visit.pending.pop())
                except OSError as error:
                    self._pass_over(error, visit)
                    continue
                if below is not None:
                    visits.append(below)
                    break
            else:
                visits.pop()
                self._leave(descent, visit, is_top=not visits)

    def _leave(self, descent: Descent, visit: _Visit, *, is_top: bool) -> None:
        try:
            self._finish(descent, visit)
        except OSError as error:
            if is_top:
                raise
            self._pass_over(error, visit)
        if not is_top:
            descent.leave()

    def _pass_over(self, error: OSError, visit: _Visit) -> None:
        """Leave what fails meanwhile to the second pass, unless everything is still."""
        if isinstance(error, Cancelled) or self._still or error.errno in FULL:
            raise error
        if isinstance(error, MovedError):
            visit.pending.clear()  # each would have to be looked for from the top

    def _visit(self, source: int, target: int, *, is_new: bool = False) -> _Visit:
        """Begin with a directory: see what it has, and remove from its copy what is gone."""
        status = os.fstat(source)
        changed = status.st_ctime_ns >= self._since
        found_here = entries(source)
        there: set[str] = set()
        if self._since > 0:
            if changed:
                self._remove_gone(target, found_here)
            there.update(os.listdir(target))
        return _Visit(status, self._to_take(found_here, there), there, changed or is_new)

    def _to_take(
        self, found_here: dict[str, os.stat_result], there: set[str]
    ) -> list[tuple[str, os.stat_result]]:
        """All entries but those that changed no more. The sandbox stands still for this loop."""
        since = self._since
        return [
            (name, found)
            for name, found in found_here.items()
            if found.st_ctime_ns >= since or name not in there or stat.S_ISDIR(found.st_mode)
        ]

    def _take(
        self, descent: Descent, visit: _Visit, name: str, found: os.stat_result
    ) -> _Visit | None:
        """Copy an entry; one that is a directory is entered and still to be copied."""
        if stat.S_ISDIR(found.st_mode):
            return self._enter(descent, visit, name)
        source, target = descent.descriptor(_SOURCE), descent.descriptor(_TARGET)
        # A file that takes the place of another changes the times of its folder's copy.
        visit.touched = True
        if name in visit.there:
            os.unlink(name, dir_fd=target)
        self._copier.copy(source, target, descent, name, found)
        return None

    def _enter(self, descent: Descent, above: _Visit, name: str) -> _Visit:
        source, target = descent.descriptor(_SOURCE), descent.descriptor(_TARGET)
        opened = [os.open(name, FOLDER, dir_fd=source)]
        try:
            is_new = not self._has_copy(opened[0], target, name)
            if is_new:
                above.touched = True
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=target)
            opened.append(os.open(name, FOLDER, dir_fd=target))
            visit = self._visit(*opened, is_new=is_new)
            if self._copied is not None and is_new:
                self._copied.note(opened[1], opened[0])
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        descent.enter(name, dict(enumerate(opened)))
        return visit

    def _has_copy(self, source: int, target: int, name: str) -> bool:
        """Whether there is a copy of an open directory; one of another directory is removed."""
        if self._since <= 0:
            return False
        try:
            made_of = self._made_of.get(os.stat(name, dir_fd=target, follow_symlinks=False).st_ino)
        except FileNotFoundError:
            return False
        if made_of == os.fstat(source).st_ino:
            return True
        remove(name, directory=target, opens_closed=True)
        return False

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
