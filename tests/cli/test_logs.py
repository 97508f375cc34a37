"""What the command line prints of texts that a hostile sandbox had a part in."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sbx_jupyter.cli import sandboxes, templates
from sbx_jupyter.protocol.platform import SandboxLogEntry
from sbx_jupyter.protocol.templates import BuildLogEntry


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


def test_what_a_build_step_prints_moves_no_cursor_and_keeps_its_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b2J"
    entry = BuildLogEntry(timestamp=datetime(2026, 11, 22, tzinfo=UTC), message=said, level="info")
    file = tmp_path / "Dockerfile"
    file.write_text("FROM base\n")

    class Client:
        async def build(self, _request: Any, _start: Any, _context: Any, say: Any) -> Any:
            say(entry)
            return SimpleNamespace(template_id="made")

    monkeypatch.setattr(templates, "call_templates", lambda _, work: asyncio.run(work(Client())))
    unset = dict.fromkeys(("context", "template", "no_cache", "ready_cmd", "cpu", "memory"))
    options = argparse.Namespace(name="x", file=file, build_arg=[], **unset)

    assert templates.build_template(options) == 0

    assert capsys.readouterr().out.splitlines()[0] == "\ufffd\x1b[31mred\x1b[0m\ufffd2J"
