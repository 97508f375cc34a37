"""The mounts of this machine, without those of other tests."""

from __future__ import annotations

from pathlib import Path

_TEMPORARY = ("/tmp/", "/dev/shm/")


def mounts_besides_tests(own: Path) -> list[str]:
    """The mounts of this process, of those in temporary directories only the ones below ``own``.

    Tests that run at the same time have mounts in temporary directories of their own.
    """
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if _counts(Path(line.split()[4]), own)]


def _counts(at: Path, own: Path) -> bool:
    return at.is_relative_to(own) or not str(at).startswith(_TEMPORARY)
