"""Python packages to compare with, in an environment of their own beside that of the checkout."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER: Final = CHECKOUT / ".peers"
PYTHON: Final = str(FOLDER / "bin" / "python")
_EXTRA: Final = "benchmarks"

_LLM_SANDBOX: Final = """
import logging, sys, time
logging.disable()
from llm_sandbox import LocalSandboxConfig, SandboxSession

def once():
    config = LocalSandboxConfig(seccomp=None)
    with SandboxSession(
        backend="bubblewrap", lang="python", sandbox_config=config, skip_environment_setup=True
    ) as session:
        ran = session.execute_command("echo hi")
        if "hi" not in ran.stdout:
            raise SystemExit(f"no output: {ran}")
        return time.perf_counter()

for _ in sys.stdin:
    started = time.perf_counter()
    print(once() - started, flush=True)
"""


def requirements() -> list[str]:
    """The packages, each with its version."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    return project["project"]["optional-dependencies"][_EXTRA]


def install() -> None:
    """Install them once, and again when their versions change."""
    mark = FOLDER / "installed"
    wanted = "\n".join(requirements())
    if mark.exists() and mark.read_text() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(FOLDER)}))
    own.joinpath("checkout.pth").write_text(f"{CHECKOUT}\n{sysconfig.get_path('purelib')}\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", *requirements()], check=True)
    mark.write_text(wanted)


@contextlib.contextmanager
def llm_sandbox() -> Iterator[dict[str, Callable[[], float]]]:
    """A session of ``llm-sandbox`` on bubblewrap with the output of one command."""
    install()
    process = subprocess.Popen(
        [PYTHON, "-c", _LLM_SANDBOX],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def once() -> float:
        stdin.write("\n")
        stdin.flush()
        if not (answer := stdout.readline()):
            raise RuntimeError("llm-sandbox has ended")
        return float(answer)

    try:
        yield {"llm-sandbox": once} if _works(once) else {}
    finally:
        stdin.close()
        stdout.close()
        process.wait(20)


def _works(once: Callable[[], float]) -> bool:
    with contextlib.suppress(RuntimeError, OSError):
        return once() > 0
    return False
