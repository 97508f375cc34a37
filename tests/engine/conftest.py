"""Real sandboxes for the tests of the engine's runtime side."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from sbx_jupyter.engine.process import ProcessSettings
from sbx_jupyter.engine.sandbox import Sandbox


@dataclass
class Limits:
    memory_mb: int = 512
    cpu_count: int = 2
    processes: int = 256
    disk_mb: int = 1024
    open_files: int = 1024


class BareCage:
    def __init__(self, writable: Path) -> None:
        self.writable = writable

    def usage(self):
        return None


CODE = """
import sys, os
sys.path.insert(0, {root!r})
os.chdir('/')
from sbx_jupyter.agent.main import run
run({fd}, {{"sandbox_id": "i1", "users": "real", "landlock": False}})
"""


@pytest.fixture
def run_dir():
    base = Path(tempfile.mkdtemp(prefix="runtime-"))
    (base / "run").mkdir()
    (base / "upper").mkdir()
    yield base / "run"
    shutil.rmtree(base)


@pytest.fixture
async def make_sandbox(run_dir):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(run_dir / "agent.sock"))
    listener.listen(8)
    fd = listener.fileno()
    code = CODE.format(root=os.getcwd(), fd=fd)
    command = [
        "unshare",
        "-fpmniu",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        "-I",
        "-c",
        code,
    ]
    agent = subprocess.Popen(command, pass_fds=[fd])
    listener.close()
    made = []

    async def make(**settings):
        cage = BareCage(run_dir.parent)
        sandbox = Sandbox(
            "i1", cage, run_dir, limits=Limits(), process_settings=ProcessSettings(**settings)
        )
        await sandbox.open(envs={}, default_user="root", default_cwd="/tmp")
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        await sandbox.aclose()
    agent.kill()
    agent.wait()


@pytest.fixture
async def sandbox(make_sandbox):
    return await make_sandbox()
