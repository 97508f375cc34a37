"""Run all tests: the browser's beside the others, since both mostly wait.

They are two runs because Playwright keeps an event loop going that other fixtures cannot share.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest"]
BROWSER = ["tests/browser", "--confcutdir=tests/browser"]


def main(options: list[str]) -> int:
    with tempfile.TemporaryFile() as output:
        browser = subprocess.Popen(
            [*PYTEST, *BROWSER, *options], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            others = subprocess.run([*PYTEST, *options], check=False)
            print("\nIn the browser:", flush=True)
            browser.wait()
        finally:
            browser.kill()
            browser.wait()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return others.returncode or browser.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
