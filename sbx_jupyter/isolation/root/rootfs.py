"""The stock root file system: an allow-list of the host, and everything else made anew.

The stock layer is a small directory, built once per data directory: generated ``/etc``, homes,
``/var`` and the mount points. Above it, at creation, ``/usr`` and the engine's Python are laid over
from the host (``HostTree``), each with its own writable part in the sandbox's upper directory.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.root import package_tables
from sbx_jupyter.isolation.root.private_entries import PRIVATE_NAMES
from sbx_jupyter.isolation.root.stock_files import (
    BASHRC,
    PATH,
    PROFILE_OF_HOME,
    SECRET,
    SHADOW_GROUP,
    generated,
)
from sbx_jupyter.isolation.root.stock_plan import TOP_LEVEL
from sbx_jupyter.isolation.root.user_programs import ONE_ID, SUDO_BY_SU

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbx_jupyter.isolation.root.stock_plan import StockPlan

_DRAFT: Final = re.compile(r"[0-9a-f]{16}(\.masks)?\.[0-9]+")

_MODES: Final = {"sudoers": 0o440, **dict.fromkeys(SECRET, 0o640)}

ETC: Final = (
    "adduser.conf", "alternatives", "bash_completion.d", "ca-certificates", "ca-certificates.conf",
    "crypto-policies", "debian_version", "default/locale", "deluser.conf", "fonts", "gai.conf",
    "host.conf", "inputrc", "issue", "java", "java-11-openjdk", "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "locale.gen",
    "localtime", "login.defs", "lsb-release", "magic", "magic.mime", "mailcap", "mime.types",
    "nanorc", "netconfig", "networks", "openssl", "os-release", "pam.conf", "pam.d", "perl",
    "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "protocols", "python3", "python3.9",
    "python3.10", "python3.11", "python3.12", "python3.13", "python3.14", "R", "redhat-release",
    "rpc", "security/limits.conf", "security/pam_env.conf", "security/namespace.conf",
    "security/access.conf", "security/group.conf", "security/time.conf", "services", "shells",
    "skel", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vim", "wgetrc",
    "xattr.conf", "xdg",
)  # fmt: skip
"""The entries of the host's ``/etc`` that are copied, if all users may read them."""

_DIRECTORIES: Final = {
    "boot": 0o755,
    "dev": 0o755,
    "etc": 0o755,
    "home": 0o755,
    "media": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "proc": 0o555,
    "root": 0o755,
    "run": 0o755,
    "run/lock": 0o1777,
    "run/sudo": 0o711,
    "srv": 0o755,
    "sys": 0o555,
    "tmp": 0o1777,
    "usr": 0o755,
    "usr/bin": 0o755,
    "usr/lib": 0o755,
    "usr/sbin": 0o755,
    "usr/share": 0o755,
    "usr/local": 0o755,
    "usr/local/bin": 0o755,
    "usr/local/lib": 0o755,
    "usr/local/sbin": 0o755,
    "usr/local/share": 0o755,
    "var": 0o755,
    "var/backups": 0o755,
    "var/cache": 0o755,
    "var/cache/apt": 0o755,
    "var/lib": 0o755,
    "var/lib/sudo": 0o700,
    "var/local": 0o755,
    "var/log": 0o755,
    "var/mail": 0o775,
    "var/opt": 0o755,
    "var/spool": 0o755,
    "var/tmp": 0o1777,
}


def build_stock(plan: StockPlan, target: Path, hidden: Sequence[str] = ()) -> None:
    """Write the stock layer to ``target`` if it does not exist; the sandbox's root owns the files.

    It has a whiteout for each of the ``hidden`` absolute paths of the host. Since the layer is
    above the host's directories, no program inside can read what a whiteout hides. The number of
    whiteouts does not slow down a sandbox. No other process may be building: what one that was
    killed left of its work is removed. Raises ``OSError``.
    """
    _remove_drafts(target.parent)
    _build(target, lambda draft: _Builder(plan, draft).build(hidden))


def build_masks(plan: StockPlan, target: Path, hidden: Sequence[str]) -> None:
    """Write the whiteouts for ``hidden`` paths of the chosen directories of a plan.

    They are in no sandbox's root, so that others do not learn the names. Raises ``OSError``.
    """
    _build(target, lambda draft: _Builder(plan, draft).mask(hidden))


def _build(target: Path, write: Callable[[Path], None]) -> None:
    if target.is_dir():
        return
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    draft.mkdir(parents=True)
    draft.chmod(0o755)
    write(draft)
    try:
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not target.is_dir():
            raise


def _remove_drafts(folder: Path) -> None:
    """Remove stock layers that were never finished. Raises ``OSError``."""
    if not folder.is_dir():
        return
    for name in os.listdir(folder):
        if _DRAFT.fullmatch(name):
            shutil.rmtree(folder / name)


class _Builder:
    def __init__(self, plan: StockPlan, root: Path) -> None:
        self._plan = plan
        self._root = root

    def build(self, hidden: Sequence[str]) -> None:
        for name, mode in _DIRECTORIES.items():
            self._directory(name, mode)
        for name in TOP_LEVEL:
            self._top_level(name)
        for tree in self._plan.trees:
            self._directory(tree.path.lstrip("/"), 0o755)
        self._symlink("var/run", "/run")
        self._symlink("var/lock", "/run/lock")
        self._etc()
        self._packages()
        self._home()
        self._python()
        self._programs_for_users(hidden)
        for path in hidden:
            self._hide(path)

    def mask(self, hidden: Sequence[str]) -> None:
        """Write only files and folders that hide entries of the chosen directories."""
        for tree in self._plan.trees:
            if tree.chosen:
                self._directory(tree.path.lstrip("/"), 0o755)
        for path in hidden:
            self._hide(path)

    def _hide(self, path: str) -> None:
        inner = self._root
        for part in path.split("/")[1:-1]:
            inner = inner / part
            if not inner.is_dir():
                try:
                    mode = os.stat(f"/{inner.relative_to(self._root)}").st_mode
                except FileNotFoundError:
                    return  # removed meanwhile, with what was to be hidden
                inner.mkdir()
                inner.chmod(stat.S_IMODE(mode))
        mask = self._root / path.lstrip("/")
        if mask.is_dir() and not mask.is_symlink():
            os.setxattr(mask, "user.overlay.opaque", b"y")  # else the host's would show through
        elif not os.path.lexists(mask):
            os.mknod(mask, stat.S_IFCHR, os.makedev(0, 0))

    def _top_level(self, name: str) -> None:
        host = f"/{name}"
        if os.path.islink(host):
            self._symlink(name, os.readlink(host))

    def _directory(self, name: str, mode: int) -> None:
        path = self._root
        for part in name.split("/"):
            path = path / part
            if not path.is_dir():
                path.mkdir()
                path.chmod(0o755)
        path.chmod(mode)

    def _file(self, name: str, content: str, mode: int = 0o644) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)

    def _symlink(self, name: str, target: str) -> None:
        path = self._root / name
        if not path.is_symlink():
            path.symlink_to(target)

    def _etc(self) -> None:
        for name in ETC:
            _copy(f"/etc/{name}", self._root / "etc" / name)
        for name, content in generated().items():
            path = self._root / "etc" / name
            if path.is_symlink():
                path.unlink()
            self._file(f"etc/{name}", content, _MODES.get(name, 0o644))
            if name in SECRET and self._plan.real_users:
                os.chown(path, 0, SHADOW_GROUP)
        self._symlink("etc/mtab", "/proc/self/mounts")

    def _packages(self) -> None:
        """The tables of installed packages, where the host has those of Debian."""
        if not Path("/", package_tables.STATUS).is_file():
            return
        for name in package_tables.FOLDERS:
            self._directory(name, 0o755)
        for name in package_tables.COPIED:
            _copy(f"/{name}", self._root / name)
        files = package_tables.settings(real_users=self._plan.real_users)
        for name, content in (files | package_tables.sources()).items():
            self._file(name, content)

    def _home(self) -> None:
        for home in ("root", "home/user"):
            self._directory(home, 0o755)
            self._file(f"{home}/.bashrc", BASHRC)
            self._file(f"{home}/.profile", PROFILE_OF_HOME)
        if self._plan.real_users:
            for path in (self._root / "home/user", *(self._root / "home/user").iterdir()):
                os.lchown(path, 1000, 1000)

    def _python(self) -> None:
        plan = self._plan
        name = os.path.basename(plan.python)
        for link in ("python", "python3", name):
            if os.path.join("/usr/local/bin", link) != plan.python:
                self._symlink(f"usr/local/bin/{link}", plan.python)
        for pip in ("pip", "pip3"):
            self._file(
                f"usr/local/bin/{pip}", f'#!/bin/sh\nexec {plan.python} -m pip "$@"\n', 0o755
            )
        file = packages_file(plan.python)
        self._directory(str(file.parent).lstrip("/"), 0o755)
        if plan.site_packages:
            content = "".join(f"{path}\n" for path in plan.site_packages)
            self._file(str(file).lstrip("/"), content)

    def _programs_for_users(self, hidden: Sequence[str]) -> None:
        plan = self._plan
        if not plan.real_users:
            for name, text in ONE_ID.items():
                self._file(f"usr/local/bin/{name}", text, 0o755)
            return
        sudo = shutil.which("sudo", path=PATH)
        if plan.host_root_mapped and sudo and sudo not in hidden:
            return  # the host's own works
        self._file("usr/local/bin/sudo", SUDO_BY_SU, 0o755)
        if not plan.host_root_mapped:
            self._copy_set_uid("su")

    def _copy_set_uid(self, name: str) -> None:
        """Copy a set-uid program, so that the sandbox's root owns it.

        The host's program has no effect inside if the host's root is not mapped there.
        """
        source = shutil.which(name, path=PATH)
        if source is not None:
            target = self._root / "usr/local/bin" / name
            shutil.copyfile(source, target)
            target.chmod(0o4755)


def packages_file(python: str) -> Path:
    """The file that gives a stock root's ``python3`` the packages of the engine's environment."""
    base = Path(python).parent.parent
    system = base == Path("/usr")
    folder = Path("/usr/local") if system else base
    packages = "dist-packages" if system and Path("/etc/debian_version").exists() else ""
    name = os.path.basename(python)
    return folder / "lib" / name / (packages or "site-packages") / "sbx-jupyter.pth"


def _copy(source: str, target: Path) -> None:
    """Copy a file of the host if it exists and all users may read it."""
    try:
        status = os.lstat(source)
    except OSError:
        return
    if stat.S_ISLNK(status.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(status.st_mode) and status.st_mode & 0o005 == 0o005:
        target.mkdir(parents=True, exist_ok=True)
        for name in set(os.listdir(source)) - PRIVATE_NAMES:
            _copy(os.path.join(source, name), target / name)
    elif stat.S_ISREG(status.st_mode) and status.st_mode & 0o004:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(status.st_mode & 0o755)
