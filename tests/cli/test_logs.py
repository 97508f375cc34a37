"""What ``jupyter sbx logs`` prints of entries that a hostile sandbox had a part in."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

import pytest

from sbx_jupyter.cli import sandboxes
from sbx_jupyter.protocol.platform import SandboxLogEntry


def test_an_entry_is_one_line_of_text_without_control_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;title\x07\x1b[2Jsaid\r\n2026-11-22 00:00:00 info  forged\x9b2J"
    entry = SandboxLogEntry(
        timestamp=datetime(2026, 11, 22, tzinfo=UTC),
        level="warn",
        message=hostile,
        fields={"target": hostile},
    )
    monkeypatch.setattr(sandboxes, "resolve", lambda options: None)
    monkeypatch.setattr(sandboxes, "call_deployment", lambda resolved, work: [entry])

    assert sandboxes.print_logs(argparse.Namespace(sandbox="x", limit=1)) == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert line.startswith("2026-11-22 00:00:00 warn  ")
    assert "said" in line
