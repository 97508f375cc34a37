"""Lists what would give stronger isolation, and how to get it, in the words of ``doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation import apparmor
from sbx_jupyter.isolation.kernel import landlock
from sbx_jupyter.isolation.kernel.containers import is_container


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that would give more, and how to get it."""

    what: str
    remedy: str
    page: str
    """The page of the documentation that says more."""


def landlock_works(abi: int, uid: int) -> bool:
    """Whether the Landlock tier can be had, with this version and as this user."""
    # The id of root owns the machine's files, whose modes Landlock does not protect.
    return abi >= landlock.NEEDED_ABI and uid != 0


def why_no_landlock(abi: int, uid: int) -> Missing:
    """Why Landlock does not confine, or what it does not give."""
    if uid == 0:
        return Missing(
            "Landlock alone cannot hold root", "run the engine as an ordinary user", "threat-model"
        )
    if abi < landlock.NEEDED_ABI:
        return Missing(
            "Landlock is not there or switched off",
            "use Linux 5.19 or later, best 6.12, with 'landlock' in its lsm= parameter",
            "threat-model",
        )
    return Missing(
        "with Landlock alone a sandbox has no UDP, no volumes, no container images and no absolute "
        "/home/user, and can find out which files of this user exist",
        "allow user namespaces as said above",
        "tiers",
    )


_OF_OLDER: Final = (
    (2, "programs cannot move files from one folder to another, only copy them", "5.19"),
    (3, "programs cannot use openat2, and the keeper shortens files by their path", "6.2"),
    (6, "the keeper sends the signals of programs, which takes longer and shows its own id as the "
     "sender's", "6.12"),
)  # fmt: skip
"""The first version of Landlock with a feature, what is missing without it, and its Linux."""


def of_older_landlock(abi: int, uid: int) -> list[Missing]:
    """The protections that a newer version of Landlock would add."""
    if not landlock_works(abi, uid):
        return []
    return [
        Missing(
            f"Landlock is of version {abi}: {what}", f"use Linux {linux} or later", "threat-model"
        )
        for version, what, linux in _OF_OLDER
        if abi < version
    ]


def why_no_loopback(error: str) -> Missing:
    """Why sandboxes of the Landlock tier have no network."""
    return Missing(
        f"with Landlock a sandbox has no network and no ports here, and so no kernels ({error})",
        "allow pidfd_getfd in the container's seccomp profile",
        "containers",
    )


def why_no_supervision(error: str) -> Missing:
    """Why there can be no keeper."""
    return Missing(
        f"Landlock is of no use here, since the calls that it leaves open cannot be held ({error})",
        "use Linux 5.19 or later, outside of programs that answer system calls themselves, with "
        "kernel.yama.ptrace_scope at 0 or 1",
        "threat-model",
    )


def why_no_namespaces(name: str, error: str) -> Missing:
    """Why a part of the tier with namespaces does not work."""
    if name in ("user_namespace", "mount_namespace"):
        what = f"user namespaces are refused ({error})"
        return Missing(what, _user_namespace_remedy(), "containers")
    if name == "overlay":
        return Missing(
            f"an overlay cannot have the data directory as its writable layer ({error})",
            "put the data directory on ext4, XFS or btrfs (in a container: on a volume) with Linux "
            "5.11 or later, or on tmpfs with Linux 6.6 or later",
            "containers",
        )
    if name == "proc":
        return Missing(
            f"a process list of its own cannot be mounted ({error})",
            "run the container with an unmasked /proc "
            "(docker run --security-opt systempaths=unconfined)",
            "containers",
        )
    remedy = "allow it in the container's seccomp profile"
    return Missing(f"{name} does not work ({error})", remedy, "containers")


def _user_namespace_remedy() -> str:
    if _read("/proc/sys/user/max_user_namespaces") == "0":
        return "sysctl -w user.max_user_namespaces=15000"
    if _read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "sysctl -w kernel.unprivileged_userns_clone=1"
    if apparmor.restricts_namespaces():
        return apparmor.load_command()
    if (profile := apparmor.confining_profile()) and not is_container():
        return (
            f"give the AppArmor profile {profile!r}, which confines this Python, the rules "
            "'userns,', 'mount,' and 'capability,'"
        )
    return (
        "run the container with --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined, or as a Kubernetes pod with hostUsers: false"
    )


def why_shared_ids(why: str) -> Missing:
    """Why sandboxes of root have no ids of their own."""
    return Missing(
        f"all sandboxes share host ids, and so what the kernel counts for each of them ({why})",
        "let the engine write to /run; in a container, give it the host's ids, or a user namespace "
        "with ids from 524288 on",
        "threat-model",
    )


def install(package: str) -> str:
    """The command that installs a package of Debian or Ubuntu."""
    return f"sudo apt-get install {package}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
