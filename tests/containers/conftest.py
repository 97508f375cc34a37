"""Builds the image of ``recipes/container`` once for each kind of podman."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
from tests.containers.podman import BUILD_SECONDS, Podman, podman_of
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

RECIPE: Final = CHECKOUT / "recipes" / "container"
TAG: Final = "localhost/sbx-jupyter"

BASE: Final = os.environ.get("SBX_CONTAINER_BASE") or None
"""An archive of a root directory that stands for the recipe's base image, without a registry."""


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter. Each run of pytest closes its own to all others."""
    folder = Path(tempfile.mkdtemp(prefix="sbx-containers-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def wheel(open_folder: Path) -> Path:
    """The folder with a wheel of the checkout, readable for every user."""
    folder = open_folder / "wheels"
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    subprocess.run([*command, str(CHECKOUT)], check=True, timeout=BUILD_SECONDS)
    return folder


@pytest.fixture(scope="session", params=["root", "rootless"])
def podman(request: pytest.FixtureRequest, open_folder: Path) -> Iterator[Podman]:
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip("needs root and podman")
    folder = open_folder / request.param
    folder.mkdir()
    with podman_of(request.param, folder) as made:
        yield made


@pytest.fixture(scope="session")
def image(podman: Podman, wheel: Path, open_folder: Path) -> str:
    """The recipe, built as it is; the package comes from ``wheel`` in place of the index."""
    if BASE is not None:
        base = parse_dockerfile((RECIPE / "Containerfile").read_text()).image
        path = "--change=ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        podman("import", path, BASE, base, timeout=BUILD_SECONDS)  # the registry's has it as well
    settings = open_folder / "pip.conf"
    settings.write_text("[global]\nfind-links = /wheels\ncert = /certificates\n")
    shown = {wheel: "/wheels", settings: "/etc/pip.conf", _certificates(): "/certificates"}
    mounts = [f"--volume={source}:{target}:ro" for source, target in shown.items()]
    wheel.chmod(0o755)
    began = time.perf_counter()
    podman("build", "--tag", TAG, *mounts, str(RECIPE), timeout=BUILD_SECONDS)
    print(f"build: {time.perf_counter() - began:.0f} s")
    size = int(podman("inspect", "--format={{.Size}}", TAG))
    print(f"size: {size / 1e6:.0f} MB")
    return TAG


def _certificates() -> Path:
    """The authorities that this machine trusts: its way to the index may have one of its own."""
    found = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    assert found, "this machine names no file of authorities"
    return Path(found).resolve()
