"""Files without a name are closed where nothing else waits for their blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sbx_jupyter.engine.live import freeing
from tests.waiting import until


def is_open(fd: int) -> bool:
    return Path(f"/proc/self/fd/{fd}").exists()


def test_a_file_without_a_name_is_closed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    monkeypatch.setattr(freeing._threads, "submit", lambda _, fd: given.append(fd))
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 4096)
    os.unlink(tmp_path / "file")

    freeing.close(fd)

    assert given == [fd]
    os.close(fd)


def test_its_descriptor_is_closed_then(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 4096)
    os.unlink(tmp_path / "file")

    freeing.close(fd)

    until(lambda: not is_open(fd))


def test_a_file_with_a_name_is_closed_at_once(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    freeing.close(fd)

    assert not is_open(fd)
