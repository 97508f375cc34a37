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

_KEPT_BY_SUDO: Final = (
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE"
    " REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT NODE_EXTRA_CA_CERTS"
)
"""Variables that name the proxy and the trusted certificates; apt-get needs them as root."""

_SUDOERS: Final = f"""\
Defaults env_reset
Defaults !requiretty
Defaults !use_pty
Defaults secure_path="{PATH}"
Defaults env_keep += "{_KEPT_BY_SUDO}"
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
