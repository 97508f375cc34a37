"""The stock root file system: an allow-list of the host, and everything else made anew.

The stock layer is a small directory, built once per data directory: generated ``/etc``, homes,
``/var`` and the mount points. Above it, at creation, ``/usr`` and the engine's Python are laid over
from the host (``HostTree``), each with its own writable part in the sandbox's upper directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

STOCK_VERSION: Final = 5

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_TOP_LEVEL: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

ETC: Final = (
    "alternatives", "bash_completion.d", "ca-certificates", "ca-certificates.conf",
    "crypto-policies", "debian_version", "default/locale", "fonts", "gai.conf", "host.conf",
    "inputrc", "issue", "java", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
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
"""What is taken from the host's ``/etc``, where everyone may read it."""

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


@dataclass(frozen=True, slots=True)
class HostTree:
    """A directory of the host that is seen at the same path inside."""

    path: str
    writable: bool
    """Laid over, so that writes land in the sandbox; else read-only."""


@dataclass(frozen=True, slots=True)
class StockPlan:
    """What the stock root file system is made of; the same plan gives the same layer."""

    real_users: bool
    """``root`` and ``user`` are two ids; else both are names for id 0."""
    host_root_mapped: bool
    """The host's root is the sandbox's root, so set-uid programs of the host work."""
    python: str
    trees: tuple[HostTree, ...]
    site_packages: tuple[str, ...]
    fingerprint: str = field(default="")

    def to_json(self) -> dict[str, Any]:
        """The plan as the zygote receives it."""
        return asdict(self)

    @staticmethod
    def from_json(raw: dict[str, Any]) -> StockPlan:
        """The inverse of ``to_json``."""
        trees = tuple(HostTree(**tree) for tree in raw["trees"])
        return StockPlan(**{**raw, "trees": trees, "site_packages": tuple(raw["site_packages"])})


def plan_stock(*, real_users: bool, host_root_mapped: bool) -> StockPlan:
    """The stock root file system for this host and this Python."""
    base, prefix = os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)
    trees = [HostTree("/usr", writable=True)]
    trees += [
        HostTree(f"/{name}", writable=True)
        for name in _TOP_LEVEL
        if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")
    ]
    for path, writable in ((base, True), (prefix, False)):
        if not any(path == t.path or path.startswith(t.path + "/") for t in trees):
            trees.append(HostTree(path, writable))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = os.path.join(base, "bin", f"python{version}")
    site = (os.path.join(prefix, "lib", f"python{version}", "site-packages"),)
    plan = StockPlan(
        real_users=real_users,
        host_root_mapped=host_root_mapped,
        python=python,
        trees=tuple(trees),
        site_packages=site if prefix != base else (),
    )
    return StockPlan.from_json({**plan.to_json(), "fingerprint": _fingerprint(plan)})


def _fingerprint(plan: StockPlan) -> str:
    parts: list[Any] = [STOCK_VERSION, plan.to_json()]
    for path in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/pam.d"):
        try:
            parts.append(os.stat(path).st_mtime_ns)
        except OSError:
            parts.append(None)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def build_stock(plan: StockPlan, target: Path) -> None:
    """Write the stock layer to ``target`` unless it is there; as the sandbox's root would own it.

    Raises ``OSError``.
    """
    if target.is_dir():
        return
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    draft.chmod(0o755)
    _Builder(plan, draft).build()
    try:
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not target.is_dir():
            raise


class _Builder:
    def __init__(self, plan: StockPlan, root: Path) -> None:
        self._plan = plan
        self._root = root

    def build(self) -> None:
        for name, mode in _DIRECTORIES.items():
            self._directory(name, mode)
        for name in _TOP_LEVEL:
            self._top_level(name)
        for tree in self._plan.trees:
            self._directory(tree.path.lstrip("/"), 0o755)
        self._symlink("var/run", "/run")
        self._symlink("var/lock", "/run/lock")
        self._etc()
        self._home()
        self._python()
        self._sudo()

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
        for name, content in _generated().items():
            path = self._root / "etc" / name
            if path.is_symlink():
                path.unlink()
            self._file(f"etc/{name}", content, 0o440 if name == "sudoers" else 0o644)
        self._symlink("etc/mtab", "/proc/self/mounts")

    def _home(self) -> None:
        for home in ("root", "home/user"):
            self._directory(home, 0o755)
            self._file(f"{home}/.bashrc", _BASHRC)
            self._file(f"{home}/.profile", _PROFILE_OF_HOME)
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
        base = Path(plan.python).parent.parent
        system = base == Path("/usr")
        folder = Path("/usr/local") if system else base
        packages = "dist-packages" if system and Path("/etc/debian_version").exists() else ""
        site = folder / "lib" / name / (packages or "site-packages")
        self._directory(str(site).lstrip("/"), 0o755)
        if plan.site_packages:
            content = "".join(f"{path}\n" for path in plan.site_packages)
            self._file(f"{str(site).lstrip('/')}/sbx-jupyter.pth", content)

    def _sudo(self) -> None:
        plan = self._plan
        if plan.real_users and plan.host_root_mapped and shutil.which("sudo", path=PATH):
            return  # the host's own works
        shim = _SUDO_BY_SU if plan.real_users else _SUDO_VIRTUAL
        self._file("usr/local/bin/sudo", shim, 0o755)
        if plan.real_users and not plan.host_root_mapped:
            self._copy_set_uid("su")

    def _copy_set_uid(self, name: str) -> None:
        """A copy owned by the sandbox's root: a set-uid program of the host's root is not obeyed
        where that root is nobody inside."""
        source = shutil.which(name, path=PATH)
        if source is not None:
            target = self._root / "usr/local/bin" / name
            shutil.copyfile(source, target)
            target.chmod(0o4755)


def _copy(source: str, target: Path) -> None:
    """Copy what is there and readable by everyone; a private file of the host stays private."""
    try:
        status = os.lstat(source)
    except OSError:
        return
    if stat.S_ISLNK(status.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(status.st_mode) and status.st_mode & 0o005 == 0o005:
        target.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(source):
            _copy(os.path.join(source, name), target / name)
    elif stat.S_ISREG(status.st_mode) and status.st_mode & 0o004:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(status.st_mode & 0o755)


_PASSWD: Final = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
"""

_GROUP: Final = """\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
man:x:12:
sudo:x:27:user
www-data:x:33:
shadow:x:42:
utmp:x:43:
staff:x:50:
users:x:100:
nogroup:x:65534:
user:x:1000:
"""

_NSSWITCH: Final = """\
passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
"""

_PROFILE: Final = f"""\
PATH="{PATH}"
export PATH
if [ -n "${{BASH-}}" ] && [ "$BASH" != /bin/sh ] && [ -f /etc/bash.bashrc ]; then
  . /etc/bash.bashrc
fi
if [ -d /etc/profile.d ]; then
  for i in /etc/profile.d/*.sh; do
    [ -r "$i" ] && . "$i"
  done
  unset i
fi
true
"""

_BASH_BASHRC: Final = r"""[ -z "${PS1-}" ] && return
shopt -s checkwinsize
PS1='\u@\h:\w\$ '
"""

_BASHRC: Final = r"""case $- in
  *i*) ;;
  *) return ;;
esac
HISTCONTROL=ignoreboth
shopt -s histappend checkwinsize
PS1='\[\033[01;32m\]\u@\h\[\033[00m\]:\[\033[01;34m\]\w\[\033[00m\]\$ '
alias ls='ls --color=auto'
alias grep='grep --color=auto'
"""

_PROFILE_OF_HOME: Final = """\
if [ -n "${BASH_VERSION-}" ] && [ -f "$HOME/.bashrc" ]; then
  . "$HOME/.bashrc"
fi
if [ -d "$HOME/.local/bin" ]; then
  PATH="$HOME/.local/bin:$PATH"
fi
true
"""

_SUDOERS: Final = f"""\
Defaults env_reset
Defaults !requiretty
Defaults !use_pty
Defaults secure_path="{PATH}"
root ALL=(ALL:ALL) NOPASSWD: ALL
%sudo ALL=(ALL:ALL) NOPASSWD: ALL
user ALL=(ALL:ALL) NOPASSWD: ALL
@includedir /etc/sudoers.d
"""

_PAM_OPEN: Final = """\
auth sufficient pam_permit.so
account sufficient pam_permit.so
password sufficient pam_permit.so
session sufficient pam_permit.so
"""

_PIP: Final = """\
[global]
break-system-packages = true
disable-pip-version-check = true
"""

_SUDO_OPTIONS: Final = r"""#!/bin/sh
# A stand-in for sudo: runs the command as the user that is asked for, without a password.
user=root login= keep= shell=
while [ $# -gt 0 ]; do
  case $1 in
    -u|--user) user=$2; shift 2 ;;
    -u*) user=${1#-u}; shift ;;
    --user=*) user=${1#*=}; shift ;;
    -g|--group|-p|--prompt|-C|-h|--host|-T|-r|-t|-D) shift 2 ;;
    -E|--preserve-env) keep=1; shift ;;
    --preserve-env=*) keep=1; shift ;;
    -i|--login) login=1; shift ;;
    -s|--shell) shell=1; shift ;;
    -l|-v|-k|-K|--list|--validate|--reset-timestamp|--remove-timestamp) exit 0 ;;
    -V|--version) echo "sudo (stand-in)"; exit 0 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
  esac
done
while [ $# -gt 0 ]; do
  case $1 in
    [A-Za-z_]*=*) export "$1"; shift ;;
    *) break ;;
  esac
done
"""

_SUDO_VIRTUAL: Final = (
    _SUDO_OPTIONS
    + r"""if [ "$user" = root ]; then home=/root; else home=/home/$user; fi
export USER="$user" LOGNAME="$user" HOME="$home" SUDO_USER="${USER:-user}"
[ -n "$login" ] && cd "$home"
[ $# -gt 0 ] || set -- /bin/bash
exec "$@"
"""
)

_SUDO_BY_SU: Final = (
    _SUDO_OPTIONS
    + r"""[ $# -gt 0 ] || set -- /bin/bash
export SUDO_USER="${USER:-user}"
exec su ${login:+-l} ${keep:+-m} -s /bin/sh -c 'exec "$@"' -- "$user" sh "$@"
"""
)


def _generated() -> dict[str, str]:
    machine_id = hashlib.sha256(os.urandom(16)).hexdigest()[:32]
    files = {
        "passwd": _PASSWD,
        "group": _GROUP,
        "hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
        "hostname": "sandbox\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        "nsswitch.conf": _NSSWITCH,
        "profile": _PROFILE,
        "bash.bashrc": _BASH_BASHRC,
        "machine-id": f"{machine_id}\n",
        "environment": f'PATH="{PATH}"\n',
        "fstab": "",
        "motd": "",
        "subuid": "user:100000:65536\n",
        "subgid": "user:100000:65536\n",
        "pip.conf": _PIP,
        "sudoers": _SUDOERS,
        "sudoers.d/README": "",
    }
    programs = ("su", "su-l", "sudo", "sudo-i", "runuser")
    return files | {f"pam.d/{name}": _PAM_OPEN for name in programs}
