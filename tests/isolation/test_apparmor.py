"""Test the AppArmor profile that doctor prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sbx_jupyter.cli.main import main
from sbx_jupyter.isolation import apparmor
from sbx_jupyter.isolation.missing import why_no_namespaces


def test_the_profile_is_for_this_python_alone(capsys: pytest.CaptureFixture[str]) -> None:
    program = str(Path(sys.executable).resolve())

    assert main(["doctor", "--apparmor"]) == 0

    text = capsys.readouterr().out
    profiles = [line for line in text.splitlines() if line.startswith("profile ")]
    assert profiles == [f'profile {apparmor.name_of(program)} "{program}" flags=(unconfined) {{']
    assert "\n  userns,\n" in text


def test_no_character_of_a_path_is_a_pattern() -> None:
    assert '"/opt/a\\[1\\]\\*/b c/python"' in apparmor.profile("/opt/a[1]*/b c/python")
    assert apparmor.name_of("/a/python") != apparmor.name_of("/b/python")
    with pytest.raises(ValueError, match="cannot name"):
        apparmor.profile('/a"/python')


def test_the_commands_change_one_profile_and_no_switch() -> None:
    file = f"/etc/apparmor.d/{apparmor.name_of(apparmor.interpreter())}"
    load, remove = apparmor.load_command(), apparmor.remove_command()

    assert load.endswith(f"sudo apparmor_parser --replace {file}")
    assert remove == f"sudo apparmor_parser --remove {file} && sudo rm {file}"
    assert "sysctl" not in load + remove


@pytest.mark.parametrize(
    ("label", "profile"),
    [
        ("/usr/bin/python3.11 (enforce)\n", "/usr/bin/python3.11"),
        ("of python (enforce)\0", "of python"),
        ("logged (complain)\n", ""),
        ("sbx-jupyter-1a2b3c4d (unconfined)\n", ""),
        ("unconfined\n", ""),
        ("system_u:system_r:container_t:s0\0", ""),  # of SELinux
        ("", ""),
    ],
)
def test_a_profile_that_confines_this_python_is_named_with_what_it_lacks(
    label: str, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "current").write_text(label)
    monkeypatch.setattr(apparmor, "_OWN_LABEL", tmp_path / "current")
    monkeypatch.setattr("sbx_jupyter.isolation.missing.is_container", lambda: False)

    assert apparmor.confining_profile() == profile

    remedy = why_no_namespaces("user_namespace", "[Errno 13] Permission denied").remedy
    assert (f"profile {profile!r}" in remedy) == bool(profile)


@pytest.mark.parametrize(
    ("content", "restricts"), [("1\n", True), ("0\n", False), (None, False), ("closed", True)]
)
def test_the_switch_of_the_machine_is_read(
    content: str | None,
    restricts: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch = tmp_path / "switch"
    if content is not None:
        switch.write_text(content)
    monkeypatch.setattr(apparmor, "_SWITCH", switch)
    if content == "closed":  # as for an ordinary user; root reads any file

        def refuse(_: Path) -> str:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "read_text", refuse)

    assert apparmor.restricts_namespaces() == restricts


@pytest.mark.skipif(shutil.which("apparmor_parser") is None, reason="needs apparmor_parser")
def test_the_parser_takes_the_profile(tmp_path: Path) -> None:
    text = apparmor.profile("/opt/a[1]*/b c/python")
    if not Path("/etc/apparmor.d/abi/4.0").exists():  # version 3 knows no user namespaces
        text = text.replace("abi/4.0", "abi/3.0").replace("  userns,\n", "")
    file = tmp_path / "profile"
    file.write_text(text)

    done = subprocess.run(
        ["apparmor_parser", "--skip-kernel-load", "--skip-cache", "--debug", file],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
