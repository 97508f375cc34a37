"""Tests of ``tests.run``: it runs failed tests once more and lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import collect_ignore
from tests.run import FAILED, LONG_RUNS, RUNS, main

ROOT = Path(__file__).parents[1]

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
    """Run folders of tests as ``make test`` runs all of them; returns exit code and output."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_all(first: str, beside: str, **more: str) -> tuple[int, list[str]]:
        arguments = {}
        for name, source in {"first": first, "beside": beside, **more}.items():
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


def test_each_run_takes_the_place_of_one_that_is_over_and_prints_in_order(run_all) -> None:
    """The first run is over only when the third has begun."""
    waits = "from pathlib import Path\nfrom tests.waiting import until\n" + (
        "def test_waits(): until((Path(__file__).parents[1] / '{}' / 'begun').exists)\n"
    )
    begins = (
        "from pathlib import Path\ndef test_begins(): Path(__file__).with_name('begun').touch()\n"
    )

    code, lines = run_all(waits.format("later"), SOUND, later=begins, last=SOUND + FLAKY)

    assert code == 0
    assert lines[0] == "Running all tests but the long ones: first, beside, later, last."
    assert sum("passed" in line and " in " in line for line in lines) == 5
    assert lines[-5:] == [
        "first: Nothing needed a second try.",
        "beside: Nothing needed a second try.",
        "later: Nothing needed a second try.",
        "last: Needed a second try:",
        "  test_last.py::test_flaky: passed",
    ]


def test_every_test_belongs_to_one_run() -> None:
    """The first takes all folders but those of the others and of targets of their own."""
    targets = {
        "tests/accessibility",
        "tests/applications",
        "tests/binder",
        "tests/containers",
        "tests/floods",
        "tests/hub",
        "tests/notebook_tools",
        "tests/programs",
        "tests/release",
        "tests/siege",
        "tests/tiers",
    }
    runs = [*RUNS.values(), *LONG_RUNS.values()]
    apart = {option for run in runs for option in run if option.startswith("tests/")}
    options = [option.partition("=") for option in RUNS["others"]]
    ignored = {folder for name, _, folder in options if name == "--ignore"}
    ignored |= {f"tests/{name}" for name in collect_ignore}

    assert apart | targets == ignored
    assert all((ROOT / folder).is_dir() for folder in ignored)


def test_a_test_is_run_by_one_of_the_two_commands() -> None:
    in_both = RUNS.keys() & LONG_RUNS.keys()
    chosen = {name: (RUNS[name][-1], LONG_RUNS[name][-1]) for name in in_both}

    assert chosen == dict.fromkeys(RUNS, ("not long", "long"))
    assert all(RUNS[name][:-1] == LONG_RUNS[name][:-1] for name in in_both)


def test_it_begins_with_what_it_runs_and_how_long_that_takes(run_all) -> None:
    _, lines = run_all(SOUND, SOUND)

    assert lines[0] == "Running all tests but the long ones: first, beside."
    assert "10 to 20 minutes on 2 cores" in lines[2]


def test_what_measures_how_long_others_wait_runs_when_they_are_over(run_all, tmp_path: Path):
    mark = f"Path({str(tmp_path / 'over')!r})"
    head = "import time\nfrom pathlib import Path\n"
    slow = f"{head}def test_slow():\n    time.sleep(1)\n    {mark}.touch()\n"

    code, lines = run_all(SOUND, slow, security=f"{head}def test_late(): assert {mark}.exists()\n")

    assert code == 0
    assert "security: Nothing needed a second try." in lines
