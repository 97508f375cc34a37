"""Rows for the tests of the platform side."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.rows import SandboxRow

START = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC)


def sandbox_row(sandbox_id: str = "iaaa", **fields: Any) -> SandboxRow:
    """A running sandbox's row."""
    values: dict[str, Any] = {
        "sandbox_id": sandbox_id,
        "template_id": "template",
        "build_id": "build",
        "state": State.RUNNING,
        "started_at": START,
        "end_at": START + dt.timedelta(seconds=300),
        "window_start": START,
        "timeout": 300,
        "cpu_count": 2,
        "memory_mb": 512,
        "disk_size_mb": 1024,
    }
    return SandboxRow(**(values | fields))
