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
    done = subprocess.run(
        command, stdout=output, stderr=subprocess.STDOUT if output else None, check=False
    )
    return done.returncode


def main(options: list[str]) -> int:
    with tempfile.TemporaryFile() as output, ThreadPoolExecutor(1) as thread:

        def run_apart() -> int:
            codes = [
                subprocess.run(
                    [*PYTEST, *which, *options],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
                for which in APART
            ]
            return max(codes, key=abs)

        apart = thread.submit(run_apart)
        others = run(options)
        code = others or apart.result()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
