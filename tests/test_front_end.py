"""What a page loads when JupyterLab starts is small; the rest comes when it is used."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import sbx_jupyter

STATIC = Path(sbx_jupyter.__file__).parent / "labextension" / "static"
MOST = 60_000
"""Bytes, compressed with gzip."""


def test_the_first_part_of_the_front_end_is_small() -> None:
    entries = list(STATIC.glob("remoteEntry.*.js"))
    if len(entries) != 1:
        pytest.skip("the labextension is not built: make build")
    entry = entries[0].read_text()
    loaded = re.search(r'"\./extension":\(\)=>(.*?)\.then', entry)
    assert loaded, "the entry names no extension"
    numbers = re.findall(r"\.e\(\"?(\d+)\"?\)", loaded[1])
    chunks = [STATIC.glob(f"{number}.*.js") for number in numbers]
    sizes = [len(gzip.compress(path.read_bytes(), 9)) for found in chunks for path in found]

    assert len(sizes) == len(numbers) > 0
    assert sum(sizes) < MOST
