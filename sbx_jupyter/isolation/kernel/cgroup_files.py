"""Reads and writes the files by which control groups are looked at and changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a file of a group."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 20).decode()
    finally:
        os.close(fd)


def read_words(path: Path) -> list[str]:
    """The words of a file; none where it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def read_pairs(path: Path) -> dict[str, int]:
    """The lines of a file that hold a name and a number."""
    rows = (line.split() for line in read_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def write_text(path: Path, text: str) -> None:
    """Write a file of a group in one system call. Raises ``OSError``."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def write_if_there(path: Path, text: str) -> None:
    """Write a file that not every kernel has."""
    if path.exists():
        write_text(path, text)
