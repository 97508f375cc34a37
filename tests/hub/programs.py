"""Installs JupyterHub and its proxy in ``.hub`` of the checkout, once."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.engine_process import CHECKOUT

FOLDER: Final = CHECKOUT / ".hub"
PACKAGES: Final = ("jupyterhub==6.1.1",)
PROXY: Final = "configurable-http-proxy@5"
INSTALL_SECONDS: Final = 900


def install() -> Path:
    """The folder of the programs, below which is ``bin/python``.

    Its interpreter sees the packages of this one as well, and the extension of the checkout.
    """
    done = FOLDER / "installed"
    if done.exists():
        return FOLDER
    run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
    own, *others = paths_of(FOLDER)
    Path(own, "checkout.pth").write_text("".join(f"{path}\n" for path in others))
    run(str(FOLDER / "bin/python"), "-m", "pip", "install", "--quiet", *PACKAGES)
    run("npm", "install", "--silent", "--no-package-lock", "--prefix", str(FOLDER), PROXY)
    extensions = FOLDER / "share/jupyter/labextensions"
    extensions.mkdir(parents=True, exist_ok=True)
    (extensions / "sbx-jupyter").symlink_to(CHECKOUT / "sbx_jupyter/labextension")
    enabled = FOLDER / "etc/jupyter/jupyter_server_config.d"
    enabled.mkdir(parents=True, exist_ok=True)
    shipped = CHECKOUT / "sbx_jupyter/jupyter_config/jupyter_server_config.d"
    for file in shipped.iterdir():
        (enabled / file.name).write_text(file.read_text())
    program = FOLDER / "bin/jupyter-sbx"
    program.write_text(
        f"#!{FOLDER}/bin/python\nfrom sbx_jupyter.cli.main import main\nraise SystemExit(main())\n"
    )
    program.chmod(0o755)
    done.touch()
    return FOLDER


def paths_of(folder: Path) -> list[str]:
    """Where Python finds JupyterHub, the checkout, and what they need."""
    own = sysconfig.get_path("purelib", vars={"base": str(folder)})
    return [own, str(CHECKOUT), sysconfig.get_path("purelib")]


def run(*command: str) -> None:
    """Raises ``subprocess.CalledProcessError``."""
    subprocess.run(command, timeout=INSTALL_SECONDS, check=True)
