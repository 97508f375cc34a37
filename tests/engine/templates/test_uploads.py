"""The directory of uploaded archives."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from sbx_jupyter.engine.templates.uploads import Uploads
from sbx_jupyter.errors import NoSpaceError


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a small disk")
def test_a_disk_without_room_for_one_more_file_takes_no_upload(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=20", "tmpfs", tmp_path], check=True)
    try:
        uploads = Uploads(tmp_path / "uploads", tmp_path)
        uploads.open()
        with contextlib.suppress(OSError):
            for number in range(20):
                (tmp_path / str(number)).touch()

        with pytest.raises(NoSpaceError):
            uploads.begin("0" * 64)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
