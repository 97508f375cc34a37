"""Cells that run in a sandbox by default, and a kernel that is restarted meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from sbx_jupyter.magics import kernel_restart as kept_setting
from tests.engine_process import CHECKOUT, environment_of_kernels
from tests.magics.conftest import Notebook

pytestmark = pytest.mark.long

STARTUP = CHECKOUT / "sbx_jupyter" / "magics" / "startup" / "10-sbx-jupyter.py"
LEFT = ".sbx-default"
MARKER = "from sbx_jupyter.magics import kernel_restart; marker = kernel_restart._path()"


@pytest.fixture(scope="module")
def notebook(engine, tmp_path_factory):
    """A notebook in whose environment the package is installed."""
    home: Path = tmp_path_factory.mktemp("restart")
    startup = home / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    shutil.copy(STARTUP, startup)
    with environment_of_kernels(engine, home):
        client = NotebookClient(
            nbformat.v4.new_notebook(), timeout=120, resources={"metadata": {"path": str(home)}}
        )
        with client.setup_kernel():
            yield Notebook(client, engine)


@pytest.fixture
def notebook_with_startup(notebook):
    """The notebook while every cell runs in a sandbox."""
    notebook.run("%load_ext sbx_jupyter")
    notebook.run("%sbx create\n%sbx default on")
    yield notebook
    notebook.run("%sbx default off")
    notebook.run("%sbx kill")


def restart(notebook: Notebook) -> None:
    client: Any = notebook.client
    run_sync(client.km.restart_kernel)(now=True)
    run_sync(client.kc.wait_for_ready)(timeout=120)


def test_cells_run_in_the_same_sandbox_after_a_restart(notebook_with_startup):
    notebook_with_startup.run("open('kept.txt', 'w').write('kept')")
    restart(notebook_with_startup)

    assert "kept" in notebook_with_startup.run("print(open('kept.txt').read())").stdout
    assert "in a sandbox" in notebook_with_startup.run("%sbx default").stdout
    assert notebook_with_startup.value("[name for name in dir() if 'sbx' in name]") == "[]"


def test_no_cell_runs_here_after_a_restart_when_the_sandbox_has_ended(notebook_with_startup):
    notebook_with_startup.run("%%local\nget_ipython()._sbx_magics.session.current.box.kill()")
    restart(notebook_with_startup)

    assert "there is no sandbox" in notebook_with_startup.run("escaped = True").error
    assert "there is no sandbox" in notebook_with_startup.run("escaped = True").error
    assert notebook_with_startup.value("'escaped' in globals()") == "False"
    notebook_with_startup.run("%sbx create")
    assert notebook_with_startup.run("escaped = True").error is None
    assert notebook_with_startup.value("'escaped' in globals()") == "False"


def test_no_cell_runs_here_when_the_magics_cannot_be_loaded(notebook_with_startup):
    notebook_with_startup.run(f"%%local\n{MARKER}\nmarker.write_text('broken')")
    restart(notebook_with_startup)

    refused = notebook_with_startup.run("escaped = True")

    assert "nothing of this cell was run" in refused.error
    connection = Path(notebook_with_startup.client.km.connection_file)
    connection.with_name(connection.name + LEFT).unlink()
    restart(notebook_with_startup)


def test_a_kernel_runs_cells_itself_after_a_restart_once_it_is_off(notebook_with_startup):
    notebook_with_startup.run("%sbx default off")
    restart(notebook_with_startup)

    assert (
        notebook_with_startup.run(
            "print('here', 'sbx' in get_ipython().magics_manager.magics['cell'])"
        ).stdout
        == "here False\n"
    )


def test_nothing_is_kept_for_a_kernel_whose_startup_file_is_not_installed(monkeypatch, tmp_path):
    file = tmp_path / f"kernel.json{LEFT}"
    file.with_name("kernel.json").touch()
    monkeypatch.setattr(kept_setting, "_path", lambda: file)
    shell = SimpleNamespace()

    assert not kept_setting.keep(shell, "python", "i1")
    assert not file.exists()

    kept_setting.resume(shell)
    assert kept_setting.keep(shell, "python", "i1")
    assert file.exists()
