"""Programs that start ``/bin/true`` apart from the rest of the machine, as peers of a create."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.benchmarks.harness import timed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

BWRAP: Final = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true")
_UNSHARE: Final = (
    *("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net"),
    *("--ipc", "--uts", "--cgroup", "/bin/true"),
)
_NAMESPACES: Final = ("pid", "network", "ipc", "uts", "mount")
_TRIAL_SECONDS: Final = 20.0
_ULIMITS: Final = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Without these, podman asks for limits that a container of its own may not set."""


class Starter(NamedTuple):
    """A program, and its arguments for a bundle (a root directory with a ``config.json``)."""

    name: str
    arguments: Callable[[Path, str], tuple[str, ...]]
    """Takes the bundle and a new name for the container."""


STARTERS: Final = (
    Starter("bwrap", lambda _, __: BWRAP),
    Starter("unshare", lambda _, __: _UNSHARE),
    Starter("crun", lambda at, name: ("crun", "run", "--bundle", str(at), name)),
    Starter("runc", lambda at, name: ("runc", "run", "--bundle", str(at), name)),
    Starter(
        "runsc",
        lambda at, name: (
            *("runsc", "--platform=ptrace", "--network=none", "--ignore-cgroups"),
            *(f"--root={at.parent / 'runsc'}", "run", "--bundle", str(at), name),
        ),
    ),
    Starter(
        "podman",
        lambda at, _: (
            *("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"),
            *("--root", str(at.parent / "podman"), "run", "--rm", "--network", "none"),
            *(*_ULIMITS, "--volume", "/usr:/usr:ro", "--rootfs", str(at / "rootfs"), "/bin/true"),
        ),
    ),
)


@contextlib.contextmanager
def starters(names: Collection[str] = ()) -> Iterator[dict[str, Callable[[], float]]]:
    """By name, what starts a program and returns the seconds until it has ended.

    Those of ``names`` only, if there are any.
    """
    with _own_folder() as folder:
        bundle = make_bundle(folder / "bundle")
        numbers = itertools.count()

        def start(starter: Starter) -> float:
            command = starter.arguments(bundle, f"bench{next(numbers)}")
            return timed(lambda: subprocess.run(command, check=True, capture_output=True))

        wanted = [starter for starter in STARTERS if not names or starter.name in names]
        usable = [starter for starter in wanted if failure(starter, bundle) is None]
        yield {starter.name: lambda starter=starter: start(starter) for starter in usable}


@contextlib.contextmanager
def _own_folder() -> Iterator[Path]:
    """A temporary folder; what peers leave mounted in it, as podman does, is unmounted."""
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as name:
        folder = Path(name).resolve()
        try:
            yield folder
        finally:
            for mounted in reversed(_mounts_below(folder)):
                subprocess.run(["umount", "--lazy", mounted], check=True)


def _mounts_below(folder: Path) -> list[str]:
    mounts = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return [mounted for mounted in mounts if mounted.startswith(f"{folder}/")]


def not_usable() -> dict[str, str]:
    """The peers that this machine does not have, each with the reason."""
    with _own_folder() as folder:
        bundle = make_bundle(folder / "bundle")
        found = {starter.name: failure(starter, bundle) for starter in STARTERS}
    return {name: reason for name, reason in found.items() if reason is not None}


def failure(starter: Starter, bundle: Path) -> str | None:
    """Why a peer cannot be measured here; ``None`` if it can."""
    command = starter.arguments(bundle, "trial")
    if shutil.which(command[0]) is None:
        return "not installed"
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "does not end here"
    if ran.returncode == 0:
        return None
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    return f"does not run here: {said[-1][:120] if said else f'exit code {ran.returncode}'}"


def make_bundle(folder: Path) -> Path:
    """Make a container of the host's ``/usr``, read-only, for programs that take OCI bundles."""
    root = folder / "rootfs"
    for name in ("usr", "proc", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (folder / "config.json").write_text(json.dumps(_bundle_config()))
    return folder


def _bundle_config() -> dict[str, Any]:
    """The configuration of the OCI runtime specification, version 1.0."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/true"],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/usr",
                "type": "bind",
                "source": "/usr",
                "options": ["rbind", "ro", "nosuid"],
            },
        ],
        "linux": {"namespaces": [{"type": kind} for kind in _NAMESPACES]},
    }
