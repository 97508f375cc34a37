"""The stock root file system: what a sandbox has of the host, and what it must not have."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.isolation.inside import LOCAL_PACKAGE, sandbox

if TYPE_CHECKING:
    from sbx_jupyter.isolation.fence import Fence
    from sbx_jupyter.isolation.tiers import IsolationReport
    from tests.isolation.inside import Inside


async def test_python_and_pip_and_the_kernel_work_inside(box: Inside) -> None:
    for python in ("python", "python3"):
        ran = await box.run(f"{python} -c 'import ipykernel, jupyter_client; print(6 * 7)'")
        assert (ran.out, ran.status) == ("42\n", 0), ran.err
    assert (await box.run("pip --version")).status == 0


@pytest.mark.parametrize("user", ["user", "root"])
async def test_pip_installs_a_package_that_python_then_imports(box: Inside, user: str) -> None:
    ran = await box.run(
        "mkdir -p /tmp/pkg && cd /tmp/pkg && echo 'answer = 42' > sbxprobe.py && "
        "python - <<'END'\n"
        "import zipfile\n"
        "with zipfile.ZipFile('sbxprobe-1.0-py3-none-any.whl', 'w') as z:\n"
        "    z.write('sbxprobe.py')\n"
        "    z.writestr('sbxprobe-1.0.dist-info/METADATA', "
        "'Metadata-Version: 2.1\\nName: sbxprobe\\nVersion: 1.0\\n')\n"
        "    z.writestr('sbxprobe-1.0.dist-info/WHEEL', "
        "'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "    z.writestr('sbxprobe-1.0.dist-info/RECORD', '')\n"
        "END\n"
        "pip install --quiet --no-index ./sbxprobe-1.0-py3-none-any.whl && cd / && "
        "python -c 'import sbxprobe; print(sbxprobe.answer)'",
        user=user,
    )
    assert ran.out == "42\n", ran.err


async def test_the_tools_of_a_stock_template_are_there(box: Inside) -> None:
    tools = "bash sh python python3 pip sudo ps ss pgrep git curl tput realpath tar gzip"
    here = {tool for tool in tools.split() if _on_host(tool)} | {"python", "pip", "sudo"}
    ran = await box.run(
        f"for t in {' '.join(sorted(here))}; do command -v $t >/dev/null || echo $t; done"
    )
    assert ran.out == ""


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="the host has no packages of Debian")
async def test_apt_get_installs_a_local_package(box: Inside) -> None:
    ran = await box.run(LOCAL_PACKAGE, timeout=60)

    assert (ran.out, ran.status) == ("hello\n", 0), ran.err
    # Of each package that the machine has, dpkg would say that its list of files is missing.
    assert "warning" not in ran.err
    ran = await box.run("dpkg --status sbx-tried bash | grep -c '^Status: install ok installed'")
    assert ran.out == "2\n"


@pytest.mark.skipif(shutil.which("sudo") is None, reason="the host has no sudo")
async def test_sudo_keeps_the_way_out(box: Inside) -> None:
    ran = await box.run("export https_proxy=http://127.0.0.1:1; sudo sh -c 'echo $https_proxy'")

    assert ran.out == "http://127.0.0.1:1\n"


async def test_git_makes_a_commit(box: Inside) -> None:
    ran = await box.run(
        "cd ~ && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q "
        "--allow-empty -m x && git log --oneline | wc -l"
    )
    assert ran.out.strip() == "1", ran.err


async def test_sudo_gives_root_without_a_password(box: Inside) -> None:
    assert (await box.run("sudo id -u")).out == "0\n"
    assert (await box.run("sudo sh -c 'touch /etc/by-root && echo done'")).out == "done\n"


async def test_users_are_two_ids_where_ids_are_real(box: Inside, report: IsolationReport) -> None:
    if report.users == "virtual":
        pytest.skip("one id only: newuidmap with a range in /etc/subuid is missing")
    assert (await box.run("id -u; echo $HOME")).out == "1000\n/home/user\n"
    assert (await box.run("id -u", user="root")).out == "0\n"
    ran = await box.run("touch /etc/not-mine")
    assert ran.status != 0
    ran = await box.run("chown 1000:1000 /srv && stat -c %u:%g /srv", user="root")
    assert ran.out == "1000:1000\n"


async def test_the_host_cannot_be_seen(box: Inside, data_dir: Path) -> None:
    secret = data_dir / "secret"
    secret.write_text("of the engine")
    hidden = [
        str(secret),
        "/etc/ssh",
        "/var/log/dpkg.log",
        "/.dockerenv",
    ]
    hidden += [f"/{name}" for name in os.listdir("/") if name not in _TOP_LEVEL_INSIDE]
    for path in hidden:
        ran = await box.run(f"ls -d {path}", user="root")
        assert ran.status != 0, path
    # The tables of passwords are the sandbox's own, and nobody has one.
    ran = await box.run("cut -d: -f2 /etc/shadow /etc/gshadow", user="root")
    assert set(ran.out.split()) <= {"*", "!"}
    for folder in ("/root", "/home", "/run", "/srv", "/mnt", "/media"):
        ran = await box.run(f"ls -A {folder}", user="root")
        host_only = set(_names(folder)) - {"lock", "sudo", "user", ".bashrc", ".profile", ".pyenv"}
        assert not host_only & set(ran.out.split()), folder


async def test_only_the_interpreter_shows_below_hidden_homes(box: Inside) -> None:
    ran = await box.run("find /root /home -xdev -maxdepth 2 2>/dev/null", user="root")
    names = {Path(line).name for line in ran.out.split()}
    assert not names & {".ssh", ".config", ".npmrc", ".gitconfig", ".aws", ".cargo"}


async def test_no_path_of_the_data_directory_shows_in_the_mounts(
    box: Inside, data_dir: Path
) -> None:
    assert str(data_dir) not in (await box.run("cat /proc/self/mountinfo")).out


async def test_writes_to_usr_stay_in_the_sandbox(box: Inside) -> None:
    ran = await box.run(
        "echo x > /usr/local/share/by-sandbox && cat /usr/local/share/by-sandbox", user="root"
    )
    assert ran.out == "x\n", ran.err
    assert not Path("/usr/local/share/by-sandbox").exists()
    assert (box.cage.writable / "upper/usr/local/share/by-sandbox").read_text() == "x\n"


async def test_user_attributes_work_in_every_tree(box: Inside) -> None:
    for path in ("/home/user/f", "/tmp/f", "/usr/local/lib/f"):
        ran = await box.run(
            f'touch {path} && python -c \'import os; os.setxattr("{path}", "user.e2b.x", b"1");'
            f' print(os.getxattr("{path}", "user.e2b.x"))\'',
            user="root",
        )
        assert ran.out == "b'1'\n", ran.err


async def test_the_host_name_is_the_sandbox_and_resolves(box: Inside) -> None:
    ran = await box.run("hostname; getent hosts $(hostname)")
    assert ran.out.splitlines()[0] == box.cage.sandbox_id
    assert ran.out.splitlines()[1].startswith("127.0.1.1")


async def test_a_layer_shows_below_the_writable_part(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "layered1") as first:
        await first.run(
            "echo sealed > /etc/from-layer; echo bin > /usr/local/bin/tool", user="root"
        )
        first.disconnect()
        await first.cage.kill()
        layer = data_dir / "layers" / "l1"
        layer.parent.mkdir(exist_ok=True)
        (first.cage.writable / "upper").rename(layer)
    try:
        async with sandbox(fence, data_dir, "layered2", layers=(layer,)) as second:
            ran = await second.run("cat /etc/from-layer /usr/local/bin/tool; hostname")
            assert ran.out == "sealed\nbin\nlayered2\n"
    finally:
        await fence.tree_operations.remove(layer)


async def test_a_former_writable_directory_can_be_used_again(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "again1") as first:
        await first.run("echo kept > ~/file; rm /etc/motd; mkdir -m 000 ~/closed")
        first.disconnect()
        await first.cage.kill()
        async with sandbox(fence, data_dir, "again2", writable=first.cage.writable) as second:
            assert (await second.run("cat /home/user/file")).out == "kept\n"


async def test_a_symbolic_link_in_a_layer_leads_nowhere_on_the_host(
    fence: Fence, data_dir: Path
) -> None:
    layer = data_dir / "layers" / "hostile"
    layer.mkdir(parents=True)
    outside = data_dir / "outside"
    outside.mkdir()
    (layer / "usr").symlink_to(outside)
    (layer / "etc").mkdir()
    (layer / "etc" / "hosts").symlink_to(outside / "hosts")
    async with sandbox(fence, data_dir, "hostile1", layers=(layer,)) as inside:
        # The layer's link does not hide the host's /usr, and nothing was written through it.
        assert (await inside.run("echo ok", user="root")).out == "ok\n"
    assert os.listdir(outside) == []


async def test_a_volume_is_shared_between_sandboxes(fence: Fence, data_dir: Path) -> None:
    volume = data_dir / "volumes" / "v1"
    volume.mkdir(parents=True)
    volumes = ((volume, "/data/shared"),)
    async with sandbox(fence, data_dir, "vol1", volumes=volumes) as first:
        assert (await first.run("echo hi > /data/shared/f", user="root")).status == 0
    async with sandbox(fence, data_dir, "vol2", volumes=volumes) as second:
        assert (await second.run("cat /data/shared/f; stat -c %u /data/shared/f")).out == "hi\n0\n"
    assert (volume / "f").read_text() == "hi\n"


_TOP_LEVEL_INSIDE = {
    *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt"),
    *("opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    *(Path(prefix).parts[1] for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)),
}
"""A root of every system, and where the Python of the tests is."""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _on_host(tool: str) -> bool:
    return any(Path(folder, tool).exists() for folder in ("/usr/bin", "/bin", "/usr/local/bin"))
