"""The sandbox of the Landlock tier: no namespaces, one directory, and a domain around it.

Paths below ``/home``, ``/root``, ``/tmp`` and ``/var/tmp`` mean those of the sandbox's directory in
the agent's interface; programs find them through HOME, TMPDIR and their working directory. There is
no network: Landlock refuses TCP, the filter every other socket but a socketpair.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.kernel import landlock, seccomp, syscalls
from sbx_jupyter.isolation.root import rootfs
from sbx_jupyter.isolation.zygote import namespaces

if TYPE_CHECKING:
    from sbx_jupyter.isolation.root.rootfs import StockPlan
    from sbx_jupyter.isolation.zygote.namespaces import Order

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_READABLE: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_READABLE_ETC: Final = (
    "passwd", "group", "hosts", "resolv.conf", "nsswitch.conf",
    "profile", "profile.d", "bash.bashrc",
)  # fmt: skip
_TAKEN: Final = ("home", "root", "etc/passwd", "etc/group")
_TERMINALS: Final = 16
"""Pseudo-terminals are opened before the domain closes: inside, /dev/pts is out of reach, since
the terminals of the same id are there too."""


def root_of(order: Order, data: str) -> str:
    """The directory that is all a sandbox may change."""
    return os.path.join(data, order.writable, "upper")


def enter(order: Order, data: str, stock: str, plan: StockPlan) -> dict[str, Any]:
    """Confine this process to its directory; gives what the agent must know.

    Raises ``namespaces.SetupError``.
    """
    os.umask(0o022)
    root = root_of(order, data)
    try:
        _fill(root, [os.path.join(data, layer) for layer in order.layers], stock, plan)
        terminals = [os.openpty() for _ in range(_TERMINALS)]
        _limit(order)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        if order.confine:
            _confine(root, plan, hold_processors=bool(order.processors))
        os.chdir(os.path.join(root, "home/user"))
    except (OSError, subprocess.SubprocessError) as error:
        raise namespaces.SetupError(str(error)) from error
    return {
        "root": root,
        "terminals": [list(pair) for pair in terminals],
        "filter": shared_ids.build(hold_processors=bool(order.processors))
        if order.confine
        else b"",
    }


def _limit(order: Order) -> None:
    """The kernel counts the processes of all that have the id; the keeper those of the sandbox."""
    if not order.confine:
        namespaces.limit(order)
        return
    namespaces.limit(replace(order, limit_processes=False))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most != resource.RLIM_INFINITY:  # some must be left for the engine and its user
        most = most * 3 // 4
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _confine(root: str, plan: StockPlan, *, hold_processors: bool) -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    trees = [tree.path for tree in plan.trees]
    etc = [f"/etc/{name}" for name in (*rootfs.ETC, *_READABLE_ETC)]
    landlock.restrict(
        writable=[root, *(f"/dev/{name}" for name in _DEVICES)],
        readable=[*trees, *_READABLE, *etc],
    )
    seccomp.install(
        seccomp.build(virtual_users=True, deny_sockets=True, hold_processors=hold_processors)
    )


def _fill(root: str, layers: list[str], stock: str, plan: StockPlan) -> None:
    if os.path.isdir(os.path.join(root, "home")):
        return
    for name in ("etc", "tmp", "var/tmp", "usr/local/bin"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name in _TAKEN:
        source, target = os.path.join(stock, name), os.path.join(root, name)
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True, ignore=_skip_trees)
        else:
            shutil.copyfile(source, target)
    for name in ("python", "python3"):
        os.symlink(plan.python, os.path.join(root, "usr/local/bin", name))
    for name in ("pip", "pip3", "sudo"):
        shutil.copy(os.path.join(stock, "usr/local/bin", name), os.path.join(root, "usr/local/bin"))
    for home in ("home/user", "root"):
        with open(os.path.join(root, home, ".profile"), "a") as profile:
            profile.write(f'PATH="{root}/usr/local/bin:{rootfs.PATH}"\n')
    for layer in reversed(layers):
        subprocess.run(["cp", "-a", "--reflink=auto", f"{layer}/.", root], check=True)


def _skip_trees(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.isdir(os.path.join(folder, name)) and name != "user"]
