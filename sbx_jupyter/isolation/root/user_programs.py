"""Programs of the stock root in place of those that change users, where the host's do not work."""

from __future__ import annotations

from typing import Final

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
    + r"""if [ "$user" = root ]; then home=$SBX_ROOT/root; else home=$SBX_ROOT/home/$user; fi
export USER="$user" LOGNAME="$user" SUDO_USER="${USER:-user}"
# Without a root file system, pip of root can write below the home of its caller only.
[ -n "$SBX_ROOT" ] && [ -z "$login" ] || export HOME="$home"
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

_WHOAMI: Final = r"""#!/bin/sh
# A stand-in for whoami: all users of this sandbox are one id, which has another name outside.
echo "${USER:-user}"
"""

_SU: Final = r"""#!/bin/sh
# A stand-in for su: all users are one id, so that it needs no password.
user=root command= login=
while [ $# -gt 0 ]; do
  case $1 in
    -c|--command) command=$2; shift 2 ;;
    --command=*) command=${1#*=}; shift ;;
    -|-l|--login) login=1; shift ;;
    -s|--shell|-g|--group|-G) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) user=$1; shift ;;
  esac
done
home=$(grep "^$user:" "$SBX_ROOT/etc/passwd" | cut -d: -f6)
[ -n "$home" ] || { echo "su: user $user does not exist" >&2; exit 1; }
export USER="$user" LOGNAME="$user" HOME="$SBX_ROOT$home"
[ -z "$login" ] || cd "$HOME" || exit 1
[ -z "$command" ] || exec /bin/bash ${login:+-l} -c "$command" "$@"
exec /bin/bash ${login:+-l} "$@"
"""

ONE_ID: Final = {"sudo": SUDO_VIRTUAL, "su": _SU, "whoami": _WHOAMI}
"""The programs of sandboxes whose users all are one id, by their names."""
