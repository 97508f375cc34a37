"""Run tests as separate runs of pytest, three at a time and some alone.

``python -m tests.run`` runs all but the long tests, ``python -m tests.run long`` these: a crash at
each named step, every attack in each tier, and the tests marked ``long``.

Playwright keeps an event loop that other fixtures cannot share, and the tests of faults count all
their child processes; the remaining runs divide the time. Tests that fail are run once more, alone,
because a busy machine can make them fail. The last lines list the tests that needed this second
try; the run fails only if a test fails again.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

FAILED = 1
AT_ONCE = 3  # on two processors: many tests wait, for ends of time or answers
_SUITES = {
    "others": [
        *("--ignore=tests/engine", "--ignore=tests/security"),
        *("--ignore=tests/server", "--ignore=tests/service"),
    ],
    "engine": ["tests/engine"],
    "browser": [
        "tests/browser",
        "--confcutdir=tests/browser",
        "--deselect=tests/browser/test_screenshots.py",
        "--deselect=tests/browser/test_crowd.py",
    ],
    "servers": ["tests/server", "tests/service"],
}
RUNS = {name: [*found, "-m", "not long"] for name, found in _SUITES.items()}
"""Begun in this order: when one is over, the next begins. The longest are the first."""

LONG_RUNS = {
    "faults": ["tests/faults", "--confcutdir=tests/faults"],
    **{name: [*found, "-m", "long"] for name, found in _SUITES.items()},
    "security": ["tests/security"],
}
ALONE = frozenset({"security"})
"""Begun when all others are over: they measure how long neighbours wait beside an attack."""

ANNOUNCEMENT = """\
Running {what}: {runs}.
The first prints as it goes; the others run beside and after it, and print at the end.
This takes {minutes} minutes on 2 cores, by how fast they are.
"""


class Runs:
    """Runs of pytest by name, each with a separate cache that records which tests failed."""

    def __init__(
        self, arguments: Mapping[str, Sequence[str]], options: Sequence[str], caches: Path
    ) -> None:
        self._arguments = arguments
        self._options = options
        self._caches = caches
        self.codes: dict[str, int] = {}
        self.first_failures: dict[str, list[str]] = {}

    def run(self, name: str, output: IO[bytes] | None) -> None:
        self._run(name, [], output)
        self.first_failures[name] = self.failures(name)

    def run_failed_again(self, name: str) -> None:
        self._run(name, ["--last-failed", "--last-failed-no-failures=none"], None)

    def _run(self, name: str, more: list[str], output: IO[bytes] | None) -> None:
        command = [sys.executable, "-m", "pytest", *self._arguments[name], *self._options, *more]
        command += ["-o", f"cache_dir={self._caches / name}"]
        errors = subprocess.STDOUT if output else None
        self.codes[name] = subprocess.run(command, stdout=output, stderr=errors).returncode

    def failures(self, name: str) -> list[str]:
        """The tests that failed when they last ran."""
        stored = self._caches / name / "v" / "cache" / "lastfailed"
        return sorted(json.loads(stored.read_text())) if stored.exists() else []

    def second_tries(self, name: str) -> str:
        """The final text about one run: which tests needed a second try, and with what result."""
        tried = self.first_failures[name]
        if not tried:
            return f"{name}: Nothing needed a second try."
        failed = self.failures(name)
        lines = [f"  {test}: {'failed again' if test in failed else 'passed'}" for test in tried]
        return "\n".join([f"{name}: Needed a second try:", *lines])


def main(
    options: list[str],
    arguments: Mapping[str, Sequence[str]] = RUNS,
    what: str = "all tests but the long ones",
    minutes: str = "10 to 20",
) -> int:
    announcement = ANNOUNCEMENT.format(what=what, runs=", ".join(arguments), minutes=minutes)
    print(announcement, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="sbx-tests-") as caches,
        contextlib.ExitStack() as files,
    ):
        runs = Runs(arguments, options, Path(caches))
        others = list(arguments)[1:]
        beside = {name: files.enter_context(tempfile.TemporaryFile()) for name in others}
        together = [name for name in arguments if name not in ALONE]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(runs.run, together, map(beside.get, together)))
        for name in [name for name in arguments if name in ALONE]:
            runs.run(name, beside.get(name))
        for output in beside.values():
            output.seek(0)
            sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
        for name in arguments:
            if runs.codes[name] == FAILED:
                print(f"\nWhat failed among the {name}, once more and alone:", flush=True)
                runs.run_failed_again(name)
        print("", *map(runs.second_tries, arguments), sep="\n", flush=True)
    return max(runs.codes.values(), key=abs)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["long", *options]:
            sys.exit(main(options, LONG_RUNS, "the long tests", "30 to 60"))
        case options:
            sys.exit(main(options))
