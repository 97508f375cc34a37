"""Where nothing isolates sandboxes, the command line, widgets and magics say so."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import traitlets

from sbx_jupyter import ConnectionConfig, Sandbox
from sbx_jupyter.cli import engine as doctor
from sbx_jupyter.cli.main import main
from sbx_jupyter.display.reports import NOT_ISOLATED
from sbx_jupyter.isolation import tiers
from sbx_jupyter.isolation.kernel.containers import is_container
from sbx_jupyter.widgets import base, metrics
from tests.engine_process import EngineProcess, engine_process
from tests.magics.conftest import notebook_on
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RED = "\033[1;31m"


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    if os.getuid() == 0 and not is_container():
        pytest.skip("root of a machine does not get the tier none")
    with engine_process("not-isolated", "--isolation=none", "--pool-size=0") as running:
        yield running


@pytest.mark.parametrize(
    ("used", "best", "red", "more"),
    [
        (None, "namespaces", "", ""),
        ("landlock", "landlock", "", ""),
        ("landlock", "namespaces", "", "uses the tier landlock"),
        ("none", "namespaces", "sandboxes of the running engine", "could give: namespaces"),
        ("none", "none", "sandboxes of the running engine", ""),
        ("landlock", "none", "could not be isolated", "jupyter sbx help containers"),
        (None, "none", "could not be isolated", "jupyter sbx help containers"),
    ],
)
def test_doctor_says_in_red_what_is_not_isolated(
    used: str | None,
    best: str,
    red: str,
    more: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    doctor._say_weaker(used, best)

    said = capsys.readouterr().out
    in_red = [line for line in said.splitlines() if line.startswith(f"{RED}NOT ISOLATED: ")]
    assert [red in line for line in in_red] == [True] * bool(red)
    assert more in said
    assert bool(said) is bool(red or more)


def test_doctor_says_it_of_a_machine_and_of_its_engine(
    engine: EngineProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    detect = tiers.detect

    def detect_nothing(folder: Path) -> tiers.IsolationReport:
        return replace(detect(folder), tier="none")

    assert main(["doctor", "--data-dir", str(engine.data_dir)]) == 0
    assert capsys.readouterr().out.startswith("NOT ISOLATED: sandboxes of the running engine")
    monkeypatch.setattr(tiers, "detect", detect_nothing)
    for folder, said in (
        (engine.data_dir, "NOT ISOLATED: sandboxes of the running engine"),
        (tmp_path / "data", "NOT ISOLATED: sandboxes of an engine that you start here"),
    ):
        assert main(["doctor", "--data-dir", str(folder)]) == 0
        assert capsys.readouterr().out.startswith(said)


def test_a_widget_says_it_above_its_view(
    engine: EngineProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / metrics.MetricsChart.bundle).write_text("export default {};")
    monkeypatch.setattr(base, "STATIC", tmp_path)
    config = ConnectionConfig.from_connection_file(engine.connection)
    with Sandbox.create(timeout=120, config=config) as box:
        widget = metrics.MetricsChart(box)
        until(lambda: widget.warning, message="the widget does not warn")

        assert widget.warning == NOT_ISOLATED
        assert widget.get_state("warning") == {"warning": NOT_ISOLATED}
        with pytest.raises(traitlets.TraitError):
            widget.warning = ""
        widget.close()


def test_the_magics_say_it_in_red(engine: EngineProcess, tmp_path: Path) -> None:
    with notebook_on(engine, tmp_path) as notebook:
        [shown] = notebook.run("%sbx doctor").displayed

    assert shown["text/plain"].startswith(f"{NOT_ISOLATED}\n")
    assert "background:#b3261e" in shown["text/html"].split(NOT_ISOLATED)[0]
