"""Starts a real engine in a separate process, for tests of its clients."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.client.connection.bundled import find_engine
from sbx_jupyter.protocol.locations import ConnectionFile, connection_file_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

START_PATIENCE = 120.0
STOP_PATIENCE = 60.0
CHECKOUT = Path(__file__).resolve().parents[1]
USER_ID = os.environ.get("SBX_TEST_USER_ID") or None
"""Who serves clients in place of root: an id, or -1 for one of the engine's own."""

TIER = os.environ.get("SBX_TEST_TIER") or None
"""A kind of engine of ``tests.tiers.rows``, which tests of clients use in place of this user's."""


@dataclass
class EngineProcess:
    """An engine on ``data_dir`` that a test may stop, kill and start again."""

    data_dir: Path
    process: subprocess.Popen[bytes] | None = None
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    url: str = ""
    """The engine's address; like ``key``, set once it answers."""
    key: str = ""
    prefix: tuple[str, ...] = ()
    """A command to run the engine's command with, such as ``unshare``."""
    python: str = sys.executable

    @property
    def pid(self) -> int:
        """The process id; the engine must have been started."""
        assert self.process is not None, "the engine was not started"
        return self.process.pid

    @property
    def log(self) -> Path:
        """The file with the engine's output."""
        return self.data_dir / "test.log"

    @property
    def connection(self) -> ConnectionFile:
        return until(lambda: find_engine(self.data_dir), message="The engine did not answer")

    @property
    def connection_file(self) -> Path:
        return connection_file_of(self.data_dir)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def is_separate(self) -> bool:
        """Whether it serves clients as a user of its own and has a helper of root."""
        return os.geteuid() == 0 and os.stat(f"/proc/{self.pid}/task").st_uid != 0

    def resident_mb(self) -> float:
        """The resident memory of the process in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def descriptors(self) -> int:
        """How many descriptors the process has."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the engine without waiting until it answers."""
        command = [self.python, "-P", "-m", "sbx_jupyter.cli.main", "engine"]
        command += [] if "--port" in self.options else ["--port", "0"]
        command += ["--data-dir", str(self.data_dir)]
        if USER_ID is not None and not any("user_id=" in option for option in self.options):
            command.append(f"--SbxEngine.user_id={USER_ID}")
        command += self.options
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | self.environment,
            )

    def wait_ready(self) -> None:
        assert self.process is not None
        process = self.process

        def answering() -> ConnectionFile | None:
            assert process.poll() is None, f"It ended with {process.returncode}"
            return find_engine(self.data_dir)

        try:
            found = until(answering, START_PATIENCE, "It did not answer", step=0.02)
        except AssertionError as error:
            self.stop()
            raise AssertionError(
                f"the engine did not start: {error}\n{self.log.read_text()}"
            ) from error
        self.url, self.key = found.url, found.api_key

    def kill(self) -> None:
        """Kill the engine as a crash would, without cleanup."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send the signal, wait for the end and return the exit code.

        ``None`` if the engine was never started. Raises ``subprocess.TimeoutExpired`` after
        ``STOP_PATIENCE`` seconds, and kills it.
        """
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return self.process.returncode


def start_engine(
    data_dir: Path, *options: str, environment: dict[str, str] | None = None
) -> EngineProcess:
    """Start an engine on ``data_dir`` and wait until it answers; the caller stops it."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = EngineProcess(data_dir, options=options, environment=environment or {})
    engine.start()
    return engine


@contextlib.contextmanager
def engine_process(
    name: str,
    *options: str,
    environment: dict[str, str] | None = None,
    prefix: tuple[str, ...] = (),
    python: str = sys.executable,
    uid: int | None = None,
    folder: str = "/tmp",
) -> Iterator[EngineProcess]:
    """A running engine with a new data directory, which is removed at the end."""
    data_dir = Path(tempfile.mkdtemp(prefix=f"sbx-{name}-", dir=folder))
    if uid is not None:
        os.chown(data_dir, uid, uid)
    engine = EngineProcess(
        data_dir, options=options, environment=environment or {}, prefix=prefix, python=python
    )
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(data_dir)


@contextlib.contextmanager
def engine_for_clients(name: str, *options: str) -> Iterator[EngineProcess]:
    """A running engine of ``TIER``, else of this user, with a new data directory."""
    if TIER is None:
        chosen = engine_process(name, *options)
    else:
        from tests.tiers.engines import engine_process_of

        chosen = engine_process_of(TIER, *options)
    with chosen as running:
        yield running


@contextlib.contextmanager
def environment_of_kernels(engine: EngineProcess, home: Path) -> Iterator[None]:
    """Let kernels that start meanwhile run this checkout on ``engine``, with files in ``home``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SBX_DATA_DIR", str(engine.data_dir))
        patch.setenv("PYTHONPATH", str(CHECKOUT))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        for name in ("E2B_API_URL", "E2B_DOMAIN", "E2B_SANDBOX_URL", "E2B_API_KEY"):
            patch.delenv(name, raising=False)
        yield
