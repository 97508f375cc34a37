"""Programs of the Landlock tier in place of those that need root or the kernel's own tables.

They are scripts in ``usr/local/bin`` of a sandbox's directory, which its search path begins with.
"""

from __future__ import annotations

from typing import Final

from sbx_jupyter.protocol.sockets import TABLE_PORT

_ADD_USER: Final = r"""#!/bin/sh
# A stand-in for useradd and adduser: a name for the one id of this sandbox, and a home.
name= home=
while [ $# -gt 0 ]; do
  case $1 in
    -d|--home|--home-dir) home=$2; shift 2 ;;
    -c|-g|-G|-s|-u|-p|-k|-e|-f|--comment|--gid|--groups|--shell|--uid|--gecos|--ingroup) shift 2 ;;
    -*) shift ;;
    *) [ -n "$name" ] || name=$1; shift ;;
  esac
done
table=$SBX_ROOT/etc/passwd
case $name in ""|*[!a-z0-9_-]*) echo "${0##*/}: '$name' is no name of a user" >&2; exit 1 ;; esac
if grep -q "^$name:" "$table"; then
  echo "${0##*/}: user '$name' already exists" >&2
  exit 9
fi
id=1000
while cut -d: -f3 "$table" | grep -qx "$id"; do id=$((id + 1)); done
home=${home:-/home/$name}
mkdir -p "$SBX_ROOT$home" || exit 1
cp "$SBX_ROOT/home/user/.profile" "$SBX_ROOT/home/user/.bashrc" "$SBX_ROOT$home/" 2> /dev/null
echo "$name:x:$id:$id:$name:$home:/bin/bash" >> "$table"
echo "$name:x:$id:" >> "$SBX_ROOT/etc/group"
"""

_ADD_GROUP: Final = r"""#!/bin/sh
# A stand-in for groupadd and addgroup: a name, since every file has the one id of this sandbox.
name= is_forced=
while [ $# -gt 0 ]; do
  case $1 in
    -g|-K|-p|-U|--gid|--key|--password|--users) shift 2 ;;
    -f|--force) is_forced=yes; shift ;;
    -*) shift ;;
    *) [ -z "$name" ] || exec usermod -aG "$1" "$name"; name=$1; shift ;;
  esac
done
table=$SBX_ROOT/etc/group
case $name in ""|*[!a-z0-9_-]*) echo "${0##*/}: '$name' is no name of a group" >&2; exit 3 ;; esac
if grep -q "^$name:" "$table"; then
  [ -z "$is_forced" ] || exit 0
  echo "${0##*/}: group '$name' already exists" >&2
  exit 9
fi
id=1000
while cut -d: -f3 "$table" | grep -qx "$id"; do id=$((id + 1)); done
echo "$name:x:$id:" >> "$table"
"""

_JOIN_GROUPS: Final = r"""#!/bin/sh
# A stand-in for usermod, which adds a user to groups and refuses what it cannot do.
case $1 in
  -aG|-Ga) groups=$2; shift 2 ;;
  -a|--append) case $2 in -G|--groups) groups=$3; shift 3 ;; *) groups= ;; esac ;;
  *) groups= ;;
esac
if [ -z "$groups" ] || [ $# -ne 1 ]; then
  echo "usermod: this sandbox has one id, so that users can only join groups, by -aG" >&2
  exit 2
fi
known() { cut -d: -f1 "$SBX_ROOT/etc/$2" | grep -qxFe "$1"; }
known "$1" passwd || { echo "usermod: user '$1' does not exist" >&2; exit 6; }
for group in $(echo "$groups" | tr , ' '); do
  known "$group" group || { echo "usermod: group '$group' does not exist" >&2; exit 6; }
done
for group in $(echo "$groups" | tr , ' '); do
  grep -qE "^$group:.*[:,]$1(,|\$)" "$SBX_ROOT/etc/group" ||
    sed -i "/^$group:/{s/\$/,$1/;s/:,/:/}" "$SBX_ROOT/etc/group" || exit 10
done
"""

_NO_PASSWORDS: Final = r"""#!/bin/sh
# A stand-in for passwd and chpasswd: nothing here asks for passwords, so none is kept.
check() {
  cut -d: -f1 "$SBX_ROOT/etc/passwd" | grep -qxFe "$1" && return
  echo "${0##*/}: user '$1' does not exist" >&2
  exit 1
}
if [ "${0##*/}" = chpasswd ]; then
  while IFS=: read -r name password || [ -n "$name" ]; do check "$name"; done
else
  name=$(whoami)
  while [ $# -gt 0 ]; do
    case $1 in -[inwx]) shift 2 ;; -*) shift ;; *) name=$1; shift ;; esac
  done
  check "$name"
fi
echo "${0##*/}: nothing in this sandbox asks for passwords, so none is kept" >&2
"""

_NO_PACKAGES: Final = r"""#!/bin/sh
# A stand-in for apt-get, apt and dpkg, which could not write where packages belong.
case " $* " in
  *" install "*|*" remove "*|*" update "*|*" upgrade "*|*" -i "*|*" --install "*)
    echo "${0##*/}: this sandbox has no root file system of its own, so packages of" \
      "the system cannot be installed; pip and downloads to \$HOME work" >&2
    exit 100 ;;
esac
exec "/usr/bin/${0##*/}" "$@"
"""

_SS: Final = f"""#!/bin/bash
# A stand-in for ss: lists the ports with a listener. The filter "sport = :80" works too.
case "$*" in *"sport = :"*) wanted=${{!#}} ;; esac
exec 3<> /dev/tcp/127.0.0.1/{TABLE_PORT} || exit 1
heads="Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port"
case $1 in -*H*) ;; *) echo "$heads" ;; esac
while read -r _ address _ state _; do
  [ "$state" = 0A ] || continue
  port=$((16#${{address#*:}}))
  [ "${{wanted:-:$port}}" = ":$port" ] &&
    printf 'tcp   LISTEN 0      128        127.0.0.1:%-5d     0.0.0.0:*\\n' "$port"
done <&3
exit 0
"""


def programs(*, has_loopback: bool) -> dict[str, str]:
    """The stand-ins by their names."""
    found = {"usermod": _JOIN_GROUPS}
    found |= dict.fromkeys(("useradd", "adduser"), _ADD_USER)
    found |= dict.fromkeys(("groupadd", "addgroup"), _ADD_GROUP)
    found |= dict.fromkeys(("passwd", "chpasswd"), _NO_PASSWORDS)
    found |= dict.fromkeys(("apt-get", "apt", "dpkg"), _NO_PACKAGES)
    return found | ({"ss": _SS} if has_loopback else {})
