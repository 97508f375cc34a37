"""Reads the status of a repository from git: its branches, and the state of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_BRANCH: Final = "refs/heads/"
_PLACES: Final = {"1": 8, "2": 9, "u": 10}
"""Number of fields before the path in a line of ``git status --porcelain=v2``, by its kind."""

_STATUS: Final = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "typechange",
}


@dataclass(frozen=True, slots=True)
class GitFileStatus:
    """One file that differs from the last commit.

    ``index_status`` and ``working_tree_status`` are git's letters, a space for none.
    """

    name: str
    status: str
    """``added``, ``conflict``, ``copied``, ``deleted``, ``modified``, ``renamed``, ``typechange``
    or ``untracked``."""

    index_status: str
    working_tree_status: str
    staged: bool
    renamed_from: str | None = None


@dataclass(frozen=True, slots=True)
class GitStatus:
    """The state of a repository."""

    current_branch: str | None = None
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    detached: bool = False
    file_status: list[GitFileStatus] = field(default_factory=list[GitFileStatus])

    @property
    def is_clean(self) -> bool:
        """Whether no file differs."""
        return not self.file_status

    @property
    def has_changes(self) -> bool:
        """Whether any file differs."""
        return bool(self.file_status)

    @property
    def has_staged(self) -> bool:
        """Whether a commit would contain something."""
        return self.staged_count > 0

    @property
    def has_untracked(self) -> bool:
        """Whether there are files that git does not know."""
        return self.untracked_count > 0

    @property
    def has_conflicts(self) -> bool:
        """Whether a merge left conflicts."""
        return self.conflict_count > 0

    @property
    def total_count(self) -> int:
        """Number of files that differ."""
        return len(self.file_status)

    @property
    def staged_count(self) -> int:
        """Number of files that are staged."""
        return sum(each.staged for each in self.file_status)

    @property
    def unstaged_count(self) -> int:
        """Number of files with changes that are not staged, without untracked ones."""
        return sum(each.working_tree_status not in " ?" for each in self.file_status)

    @property
    def untracked_count(self) -> int:
        """Number of files that git does not track."""
        return sum(each.status == "untracked" for each in self.file_status)

    @property
    def conflict_count(self) -> int:
        """Number of files with conflicts."""
        return sum(each.status == "conflict" for each in self.file_status)


@dataclass(frozen=True, slots=True)
class GitBranches:
    """The local branches; ``current_branch`` is ``None`` when none is checked out."""

    branches: list[str]
    current_branch: str | None


def parse_status(text: str) -> GitStatus:
    """Read the output of ``git status --porcelain=v2 --branch -z``."""
    head: dict[str, str] = {}
    files: list[GitFileStatus] = []
    fields = iter(text.split("\0"))
    for line in fields:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            head[name] = value
        elif kind == "?":
            files.append(GitFileStatus(rest, "untracked", "?", "?", staged=False))
        elif kind in _PLACES:
            path = line.split(" ", _PLACES[kind])[-1]
            before = next(fields, None) if kind == "2" else None
            files.append(_file(rest[:2].replace(".", " "), path, before, is_conflict=kind == "u"))
    ahead, _, behind = head.get("branch.ab", "+0 -0").partition(" ")
    name = head.get("branch.head", "(detached)")
    is_detached = name == "(detached)"
    return GitStatus(
        current_branch=None if is_detached else name,
        upstream=head.get("branch.upstream"),
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        detached=is_detached,
        file_status=files,
    )


def _file(letters: str, path: str, before: str | None, *, is_conflict: bool) -> GitFileStatus:
    index, tree = letters
    status = "conflict" if is_conflict else _STATUS.get(index.strip() or tree, "modified")
    return GitFileStatus(
        path, status, index, tree, staged=not is_conflict and index != " ", renamed_from=before
    )


def parse_branches(text: str) -> GitBranches:
    """Read the output of ``git branch --format '%(HEAD)%(refname)'``."""
    found: list[str] = []
    current = None
    for line in text.splitlines():
        mark, name = line[:1], line[1:]
        if name.startswith(_BRANCH):  # a detached head is listed, too, as a sentence
            found.append(name.removeprefix(_BRANCH))
            current = found[-1] if mark == "*" else current
    return GitBranches(found, current)
