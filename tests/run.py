"""Run all tests: those of the browser and of faults beside the others, since all mostly wait.

They are runs of their own: Playwright keeps an event loop going that other fixtures cannot share,
and the tests of faults count every process below them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO

APART = [
    ["tests/browser", "--confcutdir=tests/browser"],
    ["tests/faults", "--confcutdir=tests/faults"],
]


def run(arguments: list[str], output: IO[bytes] | None = None) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    errors = subprocess.STDOUT if output else None
    return subprocess.run(command, stdout=output, stderr=errors, check=False).returncode


def main(options: list[str]) -> int:
    with tempfile.TemporaryFile() as output, ThreadPoolExecutor(1) as thread:
        apart = thread.submit(lambda: [run([*which, *options], output) for which in APART])
        codes = [run(options), *apart.result()]
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
