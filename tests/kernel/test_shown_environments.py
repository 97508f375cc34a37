"""Kernels of other environments of the machine, which their sandboxes are shown read-only."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.errors import SbxError
from sbx_jupyter.server.kernels.variants import install_variant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.engine_process import EngineProcess

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """An environment that sandboxes do not see, with private files in it."""
    with tempfile.TemporaryDirectory(prefix="sbx-environment-", dir="/var/tmp") as folder:
        made = Path(os.path.realpath(folder)) / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
        packages = made / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (packages / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (packages / "only_here.py").write_text("name = 'the other environment'\n")
        (made / "private").write_text("of one user")
        (made / "private").chmod(0o600)
        (made / "pip.conf").write_text("password")
        made.chmod(0o755)
        yield made


@pytest.fixture
async def config(shared_engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> ConnectionConfig:
    monkeypatch.setenv("E2B_API_URL", shared_engine.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", shared_engine.url)
    monkeypatch.setenv("E2B_API_KEY", shared_engine.key)
    return ConnectionConfig.from_env()


@contextlib.asynccontextmanager
async def sandbox_that_sees(*paths: str, config: ConnectionConfig) -> AsyncIterator[AsyncSandbox]:
    try:
        made = await AsyncSandbox.create(
            "base", timeout=120, shown_directories=paths, config=config
        )
    except SbxError as error:
        if error.code == "unimplemented":
            pytest.skip(error.message)
        raise
    async with made:
        yield made


async def test_what_is_shown_is_seen_read_only_and_by_its_sandbox_alone(
    config: ConnectionConfig, environment: Path
):
    async def found(box: AsyncSandbox) -> list[str]:
        return sorted((await box.commands.run(f"ls {environment} || true")).stdout.split())

    async with sandbox_that_sees(str(environment), config=config) as box:
        seen = await found(box)
        assert {"bin", "lib", "pyvenv.cfg"} <= set(seen)
        assert not {"private", "pip.conf"} & set(seen)
        tried = await box.commands.run(
            f"touch {environment}/lib/x 2>&1 || sudo touch {environment}/x 2>&1 || true"
        )
        assert tried.stdout.count("Read-only file system") == 2
        async with await AsyncSandbox.create("base", timeout=120, config=config) as other:
            assert await found(other) == []
            there = await other.commands.run(f"cat {environment}/pyvenv.cfg || true")
            assert "No such file" in there.stderr
        # Nor does one that the engine had not made ready before it knew the environment.
        async with sandbox_that_sees("/usr/local", config=config) as other:
            assert await found(other) == []

        assert await box.pause(memory=False)
        await box.resume()
        assert await found(box) == seen
    assert (environment / "private").read_text() == "of one user"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "more than one environment"),
        ("/opt", "more than one environment"),
        ("opt/env", "must be absolute"),
        ("/usr/../usr/local", "needless parts"),
        ("/etc/ssl", "no environment"),
        ("/nowhere/at/all", "cannot be read"),
    ],
)
async def test_what_is_no_environment_is_not_shown(
    config: ConnectionConfig, path: str, reason: str
):
    with pytest.raises(SbxError, match=reason):
        async with sandbox_that_sees(path, config=config):
            pass


async def test_an_environment_that_others_may_not_read_is_not_shown(
    config: ConnectionConfig, environment: Path
):
    environment.chmod(0o750)
    try:
        with pytest.raises(SbxError, match="other users of the machine may not read it"):
            async with sandbox_that_sees(str(environment), config=config):
                pass
    finally:
        environment.chmod(0o755)


@pytest.fixture
def specs(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpecManager:
    """The kernel of the other environment, installed for this user."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    folder = tmp_path / "kernels" / "other"
    folder.mkdir(parents=True)
    python = str(environment / "bin" / "python")
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    written = {"argv": argv, "display_name": "Other", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(written))
    return KernelSpecManager()


async def test_a_kernel_of_another_environment_runs_in_a_sandbox(
    config: ConnectionConfig, environment: Path, specs: KernelSpecManager
):
    async with sandbox_that_sees(str(environment), config=config):
        pass  # or skips
    variant = install_variant("other", specs)
    assert (variant.name, variant.shown) == ("sbx-other", (str(environment),))
    manager = AsyncKernelManager(kernel_name=variant.name, kernel_spec_manager=specs)
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    said: list[str] = []
    try:
        await client.wait_for_ready(timeout=60)
        await client.execute_interactive(
            "import only_here, sys; print(only_here.name, sys.prefix)",
            output_hook=lambda m: said.append(m["content"].get("text", "")),
            timeout=30,
        )
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
    assert "".join(said) == f"the other environment {environment}\n"


async def test_a_kernel_that_its_sandbox_does_not_see_is_refused_in_one_line(
    config: ConnectionConfig, environment: Path, specs: KernelSpecManager
):
    manager = AsyncKernelManager(kernel_name="other", kernel_spec_manager=specs)
    assert manager.kernel_spec is not None
    manager.kernel_spec.metadata["kernel_provisioner"] = {"provisioner_name": "sbx-provisioner"}
    with pytest.raises(RuntimeError) as refused:
        await manager.start_kernel()
    (line,) = str(refused.value).splitlines()
    assert f"there is no {environment}/bin/python in the sandbox" in line
    assert f"--SandboxProvisioner.show={environment}" in line
