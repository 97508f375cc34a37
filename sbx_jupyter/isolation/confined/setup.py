"""The sandbox of the Landlock tier: no namespaces, one directory, and a domain around it.

Paths below ``/home``, ``/root``, ``/tmp`` and ``/var/tmp`` mean those of the sandbox's directory in
the agent's interface; programs find them through HOME, TMPDIR and their working directory. There is
no network: Landlock refuses TCP, the filter every other socket but a socketpair. With
``order.loopback`` the keeper answers calls about sockets, as a loopback interface of the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import stat
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.isolation.confined import replacement_programs, shared_ids
from sbx_jupyter.isolation.confined.process_limit import ceiling_of_processes
from sbx_jupyter.isolation.kernel import landlock, seccomp, syscalls
from sbx_jupyter.isolation.root import rootfs
from sbx_jupyter.isolation.root.private_entries import private_entries, split
from sbx_jupyter.isolation.root.user_programs import ONE_ID
from sbx_jupyter.isolation.zygote import namespaces

if TYPE_CHECKING:
    from sbx_jupyter.isolation.root.stock_plan import StockPlan
    from sbx_jupyter.isolation.zygote.order import Order

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_READABLE_ETC: Final = (
    "passwd", "group", "hosts", "resolv.conf", "nsswitch.conf",
    "profile", "profile.d", "bash.bashrc",
)  # fmt: skip
_TAKEN: Final = ("home", "root", "etc/passwd", "etc/group")
_PROFILE: Final = """
at="${{SBX_ROOT:-${{HOME%/{home}}}}}"
PATH="$at/usr/local/bin:{path}"
for script in "$at"/etc/profile.d/*.sh; do [ ! -r "$script" ] || . "$script"; done
unset at script
"""
"""Names no directory, since that of a template is another one in each of its sandboxes."""
_TERMINALS: Final = 16
"""Pseudo-terminals are opened before the domain closes: inside, /dev/pts is out of reach, since
the terminals of the same id are there too."""


def root_of(order: Order, data: str) -> str:
    """The directory that is all a sandbox may change."""
    return os.path.join(data, order.writable, "upper")


def readable_of_host(data: str, plan: StockPlan, abi: int) -> int:
    """A Landlock ruleset with what all sandboxes may read of the host, made once for all of them.

    Landlock cannot exclude private entries from an allowed directory, so the entries beside them
    are allowed one by one. Entries that are added there later cannot be read until the next start.
    ``abi`` is the version of Landlock to use.
    Returns a descriptor. Raises ``OSError``.
    """
    readable: list[str] = []
    listed: list[str] = []
    for tree in (tree.path for tree in plan.trees):
        hidden = [
            path
            for path in private_entries(tree, tree, plan.needed)
            if os.access(f"{tree}/{path}", os.R_OK) or os.access(f"{tree}/{path}", os.X_OK)
        ]  # modes keep this user, and so its sandboxes, out of the rest
        whole, on_the_way = split(hidden, tree)
        readable += whole
        listed += on_the_way
    for name in (*rootfs.ETC, *_READABLE_ETC):
        readable += _readable_in_etc(f"/etc/{name}")
    devices = [f"/dev/{name}" for name in _DEVICES]
    return landlock.files_only(
        writable=[data, *devices], readable=readable, listed=listed, version=abi
    )


def _readable_in_etc(path: str) -> list[str]:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return []
    if not stat.S_ISDIR(mode):
        return [path] if mode & 0o004 else []
    if mode & 0o005 != 0o005:
        return []
    hidden = private_entries(path, path, ())
    return [path] if not hidden else split(hidden, path)[0]


def enter(order: Order, data: str, stock: str, plan: StockPlan, readable: int) -> dict[str, Any]:
    """Confine this process to its directory; gives what the agent must know.

    ``readable`` is the ruleset of ``readable_of_host``; it is closed. Raises
    ``namespaces.SetupError``.
    """
    os.umask(0o022)
    root = root_of(order, data)
    try:
        layers = [os.path.join(data, layer) for layer in order.layers]
        _fill(root, layers, stock, plan, has_loopback=order.loopback)
        terminals = [os.openpty() for _ in range(_TERMINALS)]
        _limit(order)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        if order.confine:
            _confine(root, plan, readable, order)
        os.close(readable)
        os.chdir(root)
        with contextlib.suppress(OSError):  # the sandbox may have removed it
            os.chdir(os.path.join(root, "home/user"))
    except (OSError, subprocess.SubprocessError) as error:
        raise namespaces.SetupError(str(error)) from error
    return {
        "root": root,
        "terminals": [list(pair) for pair in terminals],
        "loopback": order.loopback,
        "filter": shared_ids.build(
            hold_processors=bool(order.processors),
            loopback=order.loopback,
            abi=order.landlock_abi,
        )
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
    ceilings: list[int] = []
    if most != resource.RLIM_INFINITY:  # some must be left for the engine and its user
        ceilings.append(most * 3 // 4)
    if order.limit_processes and order.processes > 0:
        ceilings.append(ceiling_of_processes(order.processes))
    if ceilings:
        resource.setrlimit(resource.RLIMIT_NPROC, (min(ceilings), min(ceilings)))


def _confine(root: str, plan: StockPlan, readable: int, order: Order) -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    landlock.enter(readable)
    trees = [tree.path for tree in plan.trees]
    linked = [f"/etc/{name}" for name in _READABLE_ETC]
    landlock.restrict(  # of what is readable here, the other ruleset allows less
        writable=[root, *(f"/dev/{name}" for name in _DEVICES)],
        readable=[*trees, "/etc", *linked],
        version=order.landlock_abi,
    )
    seccomp.install(_filter(hold_processors=bool(order.processors), loopback=order.loopback))


def prepare() -> None:
    """Do, in the zygote, what would be the same work in each sandbox."""
    for hold_processors in (False, True):
        for loopback in (False, True):
            _filter(hold_processors=hold_processors, loopback=loopback)


def _filter(*, hold_processors: bool, loopback: bool) -> bytes:
    return seccomp.build(
        virtual_users=True, deny_sockets=True, hold_processors=hold_processors, loopback=loopback
    )


def _fill(root: str, layers: list[str], stock: str, plan: StockPlan, *, has_loopback: bool) -> None:
    if os.listdir(root):
        return  # with what the sandbox made of it, links among it
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
    for name in ("pip", "pip3", *ONE_ID):
        shutil.copy(os.path.join(stock, "usr/local/bin", name), os.path.join(root, "usr/local/bin"))
    for name, text in replacement_programs.programs(has_loopback=has_loopback).items():
        program = os.path.join(root, "usr/local/bin", name)
        with open(program, "w") as file:
            file.write(text)
        os.chmod(program, 0o755)
    for home in ("home/user", "root"):
        with open(os.path.join(root, home, ".profile"), "a") as profile:
            profile.write(_PROFILE.format(home=home, path=rootfs.PATH))
    for layer in reversed(layers):
        subprocess.run(
            # Replaces links of a lower layer instead of writing through them.
            ["cp", "-a", "--remove-destination", "--reflink=auto", f"{layer}/.", root],
            check=True,
        )


def _skip_trees(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.isdir(os.path.join(folder, name)) and name != "user"]
