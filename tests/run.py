"""Run all tests: those of the browser and of faults beside the others, since all mostly wait.

They are runs of their own: Playwright keeps an event loop going that other fixtures cannot share,
and the tests of faults count every process below them. What fails while they share two processors
is run once more alone, and said; only what fails again fails the whole.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO

FAILED = 1
RUNS = {
    "others": [],
    "browser": ["tests/browser", "--confcutdir=tests/browser"],
    "faults": ["tests/faults", "--confcutdir=tests/faults"],
}


def run(name: str, options: list[str], output: IO[bytes] | None = None) -> int:
    cache = ["-o", f"cache_dir=.pytest_cache/{name}"]
    command = [sys.executable, "-m", "pytest", *RUNS[name], *cache, *options]
    errors = subprocess.STDOUT if output else None
    return subprocess.run(command, stdout=output, stderr=errors, check=False).returncode


def main(options: list[str]) -> int:
    codes: dict[str, int] = {}
    with tempfile.TemporaryFile() as output, ThreadPoolExecutor(1) as thread:
        apart = thread.submit(
            lambda: {name: run(name, options, output) for name in ("browser", "faults")}
        )
        codes["others"] = run("others", options)
        codes |= apart.result()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    for name, code in codes.items():
        if code == FAILED:
            print(f"\nWhat failed among the {name}, once more and alone:", flush=True)
            codes[name] = run(name, [*options, "--last-failed", "--last-failed-no-failures=none"])
    return max(codes.values(), key=abs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
