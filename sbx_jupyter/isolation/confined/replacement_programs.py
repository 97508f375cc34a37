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
    found = {"useradd": _ADD_USER, "adduser": _ADD_USER}
    found |= dict.fromkeys(("apt-get", "apt", "dpkg"), _NO_PACKAGES)
    return found | ({"ss": _SS} if has_loopback else {})
