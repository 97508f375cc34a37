"""The files of ``recipes/`` are read by their readers without an error."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
from sbx_jupyter.service.app import SbxEngine

RECIPES = Path(__file__).parents[2] / "recipes"
UNITS = sorted((RECIPES / "systemd").glob("*.service"))


def command_of(unit: Path) -> list[str]:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.read(unit)
    return shlex.split(parsed["Service"]["ExecStart"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_the_engine_with_options_that_it_has(unit: Path) -> None:
    program, engine, *options = command_of(unit)

    assert (Path(program).name, engine) == ("jupyter-sbx", "engine")
    for option in options:
        name = option.removeprefix("--").partition("=")[0]
        trait = SbxEngine.aliases.get(name, name)
        assert trait.removeprefix("SbxEngine.") in SbxEngine.class_traits(config=True), option


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / f"sbx-engine-{unit.name}"
    copy.write_text(re.sub("(?m)^ExecStart=[^ ]*", "ExecStart=/bin/true", unit.read_text()))

    ran = subprocess.run(
        ["systemd-analyze", "verify", f"--{unit.stem}", str(copy)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    if "Failed to initialize manager" in ran.stderr:
        pytest.skip(f"systemd-analyze does not work here: {ran.stderr}")
    assert copy.name not in ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stderr


def test_the_container_file_is_read_as_written() -> None:
    read = parse_dockerfile((RECIPES / "container" / "Containerfile").read_text())

    assert read.image == "docker.io/library/debian:12"
    assert read.start_command == "tini -g -- jupyter lab --ip=0.0.0.0 --no-browser"
    assert [text.split(":")[1].strip() for text in read.left_out] == ["EXPOSE"]
