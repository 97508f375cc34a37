"""Uses one sandbox of an engine of this user: prints what it saw, and ends with 1 if it is wrong.

For ``boot.sh``; with limits of time for a machine that is emulated.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))

from sbx_jupyter import ConnectionConfig, Sandbox
from sbx_jupyter.errors import SbxError
from tests import engine_process
from tests.system_python import environment_for_all
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 900
MEMORY_MB: Final = 192
SHORTEN: Final = (
    'python3 -c "import ctypes; libc = ctypes.CDLL(None, use_errno=True); '
    "print(libc.truncate(b'{secret}', 0), ctypes.get_errno())\""
)
FILL: Final = "python3 -c 'held = b\"x\" * (1 << 29)'; echo ended $?"


def main() -> int:
    """Try each; the number of those that went wrong."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    engine_process.START_PATIENCE = PATIENCE
    wrong = 0
    with (
        environment_for_all("/tmp") as python,
        engine_process.engine_process(
            "machine",
            "--pool-size=0",
            environment={"PYTHONPATH": f"{engine_process.CHECKOUT}:{packages}"},
            python=str(python / "bin/python"),
        ) as engine,
    ):
        config = ConnectionConfig(engine.url, engine.key, request_timeout=PATIENCE)
        with Sandbox.create(
            "code-interpreter-v1", config=config, timeout=2 * PATIENCE, memory_mb=MEMORY_MB
        ) as box:
            for name, attempt in _attempts(box, config, engine).items():
                start = time.monotonic()
                try:
                    said, expected = attempt()
                except (SbxError, AssertionError, httpx.HTTPError) as error:
                    said, expected = f"{type(error).__name__}: {error}", "no error"
                is_wrong = expected not in said
                wrong += is_wrong
                verdict = f"WRONG, expected {expected!r}" if is_wrong else "ok"
                took = time.monotonic() - start
                print(f"{name}: {said!r}, {verdict} ({took:.0f} s)", flush=True)
    return min(wrong, 1)


def _attempts(
    box: Sandbox, config: ConnectionConfig, engine: engine_process.EngineProcess
) -> dict[str, Callable[[], tuple[str, str]]]:
    """What is tried: each gives what it saw and what has to be in that."""
    secret = engine.data_dir / "secret"
    secret.write_text("whole")

    def run(command: str) -> str:
        # The end of a command that a signal ends is told by the shell, not as an error.
        done = box.commands.run(f"{{ {command}; }} 2>&1 || true", timeout=PATIENCE)
        return done.stdout.strip()

    def served() -> tuple[str, str]:
        server = box.commands.run("python3 -m http.server 8123", background=True, timeout=0)
        with httpx.Client(
            base_url=config.api_url,
            headers={"Host": box.get_host(8123)},
            trust_env=False,
            timeout=PATIENCE,
        ) as client:
            until(lambda: client.get("/").status_code == 200, timeout=PATIENCE)
        server.kill()
        return "answered", "answered"

    def signalled() -> tuple[str, str]:
        said = run(f"kill -9 {engine.pid}")
        assert engine.process is not None
        return f"{said} {engine.process.poll()}", "None"

    def shortened() -> tuple[str, str]:
        said = run(SHORTEN.format(secret=secret))
        return f"{said} {secret.read_text()}", "whole"

    def measured() -> tuple[str, str]:
        until(box.get_metrics, timeout=PATIENCE)
        found = box.get_metrics()[-1]
        return (
            f"memory {found.mem_used >> 20} of {found.mem_total >> 20} MiB",
            f"of {MEMORY_MB} MiB",
        )

    return {
        "a command": lambda: (run("echo hello"), "hello"),
        "its user": lambda: (run("whoami; sudo whoami"), "user\nroot"),
        "signals inside": lambda: (run("sleep 99 & sleep 0.1; kill $!; wait $!; echo $?"), "143"),
        "a signal to the engine": signalled,
        "a file of the engine cut": shortened,
        "a port": served,
        "code": lambda: (str(box.run_code("6 * 7").text), "42"),
        "a limit of memory": lambda: (run(FILL), "ended 137"),
        "metrics": measured,
        "after all that": lambda: (run("echo alive"), "alive"),
    }


if __name__ == "__main__":
    sys.exit(main())
