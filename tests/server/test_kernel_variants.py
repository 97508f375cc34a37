"""Which sandboxed variant an installed kernel has, and what it shows."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from sbx_jupyter.errors import AlreadyExistsError, FailedPreconditionError
from sbx_jupyter.server.kernels.variants import find_variant, install_variant
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

LAUNCHER = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this user's specifications; no other is found."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    folder = tmp_path / "kernels"
    folder.mkdir()
    return folder


@pytest.fixture
def specs(kernels: Path) -> KernelSpecManager:
    return KernelSpecManager(kernel_dirs=[str(kernels)])


def install(kernels: Path, name: str, *argv: str, **fields: Any) -> None:
    folder = kernels / name
    folder.mkdir()
    written = {"argv": list(argv), "display_name": name.title(), "language": "x"} | fields
    (folder / "kernel.json").write_text(json.dumps(written))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    for folder in (path.parent, path.parent.parent):
        folder.chmod(0o755)
    return path


def test_the_kernel_of_this_python_has_the_one_that_is_installed_with_the_package(
    kernels: Path, specs: KernelSpecManager
):
    install(kernels, "python3", sys.executable, "-Xfrozen_modules=off", *LAUNCHER)
    shutil.copytree(CHECKOUT / "sbx_jupyter" / "kernel" / "spec", kernels / "sbx-python3")

    for name in ("python3", "sbx-python3"):
        variant = find_variant(name, specs)
        assert (variant.name, variant.is_there, variant.shown) == ("sbx-python3", True, ())


def test_a_program_of_the_system_needs_nothing_shown(kernels: Path, specs: KernelSpecManager):
    install(kernels, "shell", "sh", "-c", "{connection_file}", env={"A": "1"}, metadata={"b": 2})

    made = install_variant("shell", specs)

    assert (made.name, made.shown, made.is_there) == ("sbx-shell", (), False)
    written = specs.get_kernel_spec("sbx-shell")
    assert written.argv[0].endswith("/sh")
    assert written.argv[1:] == ["-c", "{connection_file}"]
    assert (written.display_name, written.env) == ("Shell (sandbox)", {"A": "1"})
    assert written.metadata == {
        "b": 2,
        "kernel_provisioner": {"provisioner_name": "sbx-provisioner", "config": {}},
        "sbx_jupyter": {"variant_of": "shell"},
    }
    assert find_variant("shell", specs).is_there


def test_another_environment_is_named_and_asked_for_again_when_it_changes(
    kernels: Path, specs: KernelSpecManager, tmp_path: Path
):
    first, second = (program(tmp_path / name / "bin" / "run") for name in ("one", "two"))
    install(kernels, "other", str(first), "{resource_dir}/../../one/x")

    with pytest.raises(FailedPreconditionError, match="which sandboxes do not see"):
        find_variant("other", specs)

    shutil.rmtree(kernels / "other")
    install(kernels, "other", str(first))
    assert install_variant("other", specs).shown == (str(tmp_path / "one"),)
    written = specs.get_kernel_spec("sbx-other").metadata["kernel_provisioner"]["config"]
    assert written == {"show": [str(tmp_path / "one")]}
    assert find_variant("other", specs).is_there

    shutil.rmtree(kernels / "other")
    install(kernels, "other", str(second))
    assert not find_variant("other", specs).is_there


def test_a_link_to_a_program_shows_both_environments(
    kernels: Path, specs: KernelSpecManager, tmp_path: Path
):
    real = program(tmp_path / "base" / "bin" / "run")
    link = tmp_path / "env" / "bin" / "run"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    install(kernels, "other", str(link))

    assert find_variant("other", specs).shown == (str(tmp_path / "env"), str(tmp_path / "base"))


def test_what_cannot_run_in_a_sandbox_is_refused_in_one_line(
    kernels: Path, specs: KernelSpecManager, tmp_path: Path
):
    install(kernels, "missing", "no-such-program-here")
    with pytest.raises(FailedPreconditionError, match="no program 'no-such-program-here'"):
        find_variant("missing", specs)

    install(kernels, "loose", str(program(tmp_path / "somewhere" / "run")))
    with pytest.raises(FailedPreconditionError, match="it lies in no 'bin' of an environment"):
        find_variant("loose", specs)

    closed = program(tmp_path / "closed" / "bin" / "run")
    closed.parent.parent.chmod(0o700)
    install(kernels, "closed", str(closed))
    with pytest.raises(FailedPreconditionError, match="only what all users may read"):
        find_variant("closed", specs)


def test_a_kernel_of_the_user_is_never_replaced(kernels: Path, specs: KernelSpecManager):
    install(kernels, "shell", "sh")
    install(kernels, "sbx-shell", "sh", "-x")

    with pytest.raises(AlreadyExistsError, match="another kernel is named 'sbx-shell'"):
        install_variant("shell", specs)


async def test_the_route_shows_nothing_that_the_user_was_not_asked_about(
    api, jp_kernel_dir, tmp_path: Path
):
    path = program(tmp_path / "env" / "bin" / "run")
    install(jp_kernel_dir, "other", str(path))
    prefix = str(tmp_path / "env")

    described = {"kernel": "sbx-other", "isThere": False, "shown": [prefix]}
    assert await api("GET", "kernelspecs", "other") == (200, described)
    status, error = await api("POST", "kernelspecs", "other", body={})
    assert (status, error["code"]) == (409, "failed_precondition")
    assert prefix in error["message"]
    assert not (jp_kernel_dir / "sbx-other").exists()

    assert await api("POST", "kernelspecs", "other", body={"shown": [prefix]}) == (201, described)
    assert (await api("GET", "kernelspecs", "other"))[1]["isThere"] is True
    assert (await api("GET", "kernelspecs", "nothing"))[0] == 404
