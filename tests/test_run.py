"""Tests of ``tests.run``: it runs failed tests once more and lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run import FAILED, main

SOUND = "def test_sound(): pass\n"
BROKEN = "def test_broken(): assert False\n"
FLAKY = """
from pathlib import Path

def test_flaky():
    mark = Path(__file__).with_name("tried")
    was_tried, _ = mark.exists(), mark.touch()
    assert was_tried
"""


@pytest.fixture
def run_all(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch):
    """Run two folders of tests as ``make test`` runs its three; returns exit code and output."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_all(first: str, beside: str) -> tuple[int, list[str]]:
        arguments = {}
        for name, source in (("first", first), ("beside", beside)):
            folder = tmp_path / name
            folder.mkdir()
            (folder / f"test_{name}.py").write_text(source)
            (folder / "pytest.ini").write_text("[pytest]\n")
            arguments[name] = [str(folder)]
        code = main(["-q"], arguments)
        return code, capfd.readouterr().out.splitlines()

    return run_all


def test_a_run_in_which_all_pass_says_so(run_all) -> None:
    code, lines = run_all(SOUND, SOUND)

    assert code == 0
    assert lines[-2:] == [
        "first: Nothing needed a second try.",
        "beside: Nothing needed a second try.",
    ]


def test_what_passes_at_the_second_try_fails_nothing_and_is_named(run_all) -> None:
    code, lines = run_all(SOUND, SOUND + FLAKY)

    assert code == 0
    assert lines[-3:] == [
        "first: Nothing needed a second try.",
        "beside: Needed a second try:",
        "  test_beside.py::test_flaky: passed",
    ]


def test_what_fails_twice_fails_the_whole(run_all) -> None:
    code, lines = run_all(SOUND + FLAKY + BROKEN, SOUND)

    assert code == FAILED
    assert lines[-4:] == [
        "first: Needed a second try:",
        "  test_first.py::test_broken: failed again",
        "  test_first.py::test_flaky: passed",
        "beside: Nothing needed a second try.",
    ]


def test_it_begins_with_what_it_runs_and_how_long_that_takes(run_all) -> None:
    _, lines = run_all(SOUND, SOUND)

    assert lines[0] == "Running all tests: first, beside."
    assert "26 minutes on 2 cores" in lines[2]
