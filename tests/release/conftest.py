"""Builds the package as it is published, once for all tests of this folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.engine_process import CHECKOUT


def copy_of_checkout(folder: Path) -> Path:
    """The committed files of the checkout, without a built front end."""
    archive = folder.with_suffix(".tar")
    folder.mkdir(parents=True)
    subprocess.run(["git", "archive", "--output", str(archive), "HEAD"], cwd=CHECKOUT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="tar")
    return folder


def build(source: Path, out: Path) -> dict[str, Path]:
    """Build an sdist, and a wheel from it; returns the files by their suffix."""
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return {path.suffix: path for path in out.iterdir()}


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_checkout(tmp_path_factory.mktemp("first") / "source")


@pytest.fixture(scope="session")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist (``.gz``) and the wheel (``.whl``)."""
    return build(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def next_version(
    built: dict[str, Path], source: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A wheel of the same code with the next version, and with a further step of the database.

    The front end of ``source`` is reused.
    """
    for name in ("pyproject.toml", "labextension/package.json"):
        path = source / name
        path.write_text(re.sub(r'(version"?\s*[:=]\s*)"0\.1\.0"', r'\1"0.1.1"', path.read_text()))
    migrations = source / "sbx_jupyter/engine/state/migrations.py"
    steps = migrations.read_text()
    end = ')\n"""Step n'
    assert steps.count(end) == 1
    migrations.write_text(steps.replace(end, f'    ("CREATE TABLE of_next (key TEXT)",),\n{end}'))
    return build(source, tmp_path_factory.mktemp("next"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables for commands: a home, a data directory and no other configuration."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SBX_DATA_DIR": str(tmp_path / "data"),
    }
