"""The files of the stock root file system that replace the host's."""

from __future__ import annotations

import hashlib
import os
from typing import Final

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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

BASHRC: Final = r"""case $- in
  *i*) ;;
  *) return ;;
esac
HISTCONTROL=ignoreboth
shopt -s histappend checkwinsize
PS1='\[\033[01;32m\]\u@\h\[\033[00m\]:\[\033[01;34m\]\w\[\033[00m\]\$ '
alias ls='ls --color=auto'
alias grep='grep --color=auto'
"""

PROFILE_OF_HOME: Final = """\
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

SUDO_VIRTUAL: Final = (
    _SUDO_OPTIONS
    + r"""if [ "$user" = root ]; then home=/root; else home=/home/$user; fi
export USER="$user" LOGNAME="$user" HOME="$home" SUDO_USER="${USER:-user}"
[ -n "$login" ] && cd "$home"
[ $# -gt 0 ] || set -- /bin/bash
exec "$@"
"""
)

SUDO_BY_SU: Final = (
    _SUDO_OPTIONS
    + r"""[ $# -gt 0 ] || set -- /bin/bash
export SUDO_USER="${USER:-user}"
exec su ${login:+-l} ${keep:+-m} -s /bin/sh -c 'exec "$@"' -- "$user" sh "$@"
"""
)


SECRET: Final = ("shadow", "gshadow")
"""Files that only root and the group ``shadow`` may read."""

SHADOW_GROUP: Final = 42


def _without_passwords() -> dict[str, str]:
    """The tables of passwords: nobody has one, and the tools for users can set them."""
    users = [line.partition(":")[0] for line in _PASSWD.splitlines()]
    groups = [line.split(":") for line in _GROUP.splitlines()]
    return {
        "shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name in users),
        "gshadow": "".join(f"{name}:*::{members}\n" for name, _, _, members in groups),
    }


def generated() -> dict[str, str]:
    """Path below ``/etc`` to content."""
    machine_id = hashlib.sha256(os.urandom(16)).hexdigest()[:32]
    files = {
        "passwd": _PASSWD,
        "group": _GROUP,
        **_without_passwords(),
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
