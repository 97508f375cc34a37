"""The scripts that build steps run as root inside the sandbox.

They are POSIX shell, since any image has that. Where a sandbox has no root file system of its own,
SBX_ROOT names the directory that stands for it.
"""

from __future__ import annotations

from typing import Final

MAKE_USER: Final = r"""
set -eu
name=$1 sudo=$2 virtual=$3 at=${SBX_ROOT-}
if ! grep -q "^$name:" "$at/etc/passwd"; then
  uid=1000
  while cut -d: -f3 "$at/etc/passwd" "$at/etc/group" | grep -qx "$uid"; do
    uid=$((uid + 1))
  done
  gid=$(grep "^$name:" "$at/etc/group" | cut -d: -f3 || true)
  if [ -z "$gid" ]; then
    gid=$uid
    echo "$name:x:$gid:" >> "$at/etc/group"
  fi
  echo "$name:x:$uid:$gid:$name:/home/$name:/bin/bash" >> "$at/etc/passwd"
  if [ -f "$at/etc/shadow" ]; then echo "$name:*:19000:0:99999:7:::" >> "$at/etc/shadow"; fi
  if [ ! -d "$at/home/$name" ]; then
    mkdir -p "$at/home/$name"
    if [ -n "$at" ]; then
      cp "$at/home/user/.profile" "$at/home/user/.bashrc" "$at/home/$name/"
    elif [ -d /etc/skel ]; then cp -R /etc/skel/. "/home/$name/"; fi
  fi
  if [ -z "$virtual" ]; then chown -R "$uid:$gid" "$at/home/$name"; fi
  echo changed
fi
if [ -n "$sudo" ] && ! grep -qs "^$name ALL" "$at/etc/sudoers" "$at"/etc/sudoers.d/*; then
  mkdir -p "$at/etc/sudoers.d"
  echo "$name ALL=(ALL:ALL) NOPASSWD: ALL" > "$at/etc/sudoers.d/90-$name"
  chmod 440 "$at/etc/sudoers.d/90-$name"
  echo changed
fi
if [ -n "$sudo" ] && ! command -v sudo > /dev/null; then
  echo "this image has no sudo: use the user root for what needs it" >&2
fi
if [ ! -e /bin/bash ]; then
  # Clients run everything by this name.
  mkdir -p /bin
  if found=$(command -v bash); then
    ln -s "$found" /bin/bash
  else
    printf '#!/bin/sh\nexec /bin/sh "$@"\n' > /bin/bash
    chmod 755 /bin/bash
  fi
  echo changed
fi
"""
"""Arguments: name, ``true`` for password-less sudo, ``virtual`` where there is one id only."""

MAKE_DIRECTORY: Final = r"""
set -eu
path=${SBX_ROOT-}$1 user=$2 virtual=$3
[ -d "$path" ] && exit 0
first=$path
while above=$(dirname "$first"); [ ! -e "$above" ]; do first=$above; done
mkdir -p "$path"
if [ -z "$virtual" ]; then chown -R "$user:" "$first"; fi
echo changed
"""
"""Arguments: absolute path, owner of what is missing, ``virtual``."""

COPY: Final = r"""
set -eu
source=$1 target=$2 owner=$3 mode=$4 user=$5 workdir=$6 gzip=$7
at=${SBX_ROOT-}
mkdir -p "$at/tmp"
scratch=$(mktemp -d "$at/tmp/.copy-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
tar -x $gzip -o -f - -C "$scratch"
found=$scratch/$source
if [ ! -e "$found" ] && [ ! -L "$found" ]; then
  echo "'$source' is not among the uploaded files" >&2
  exit 1
fi
case $target in
  /*) target=$at$target ;;
  *)
    [ -n "$workdir" ] || workdir=$(grep "^$user:" "$at/etc/passwd" | cut -d: -f6)
    target=$at$workdir/$target ;;
esac
if [ -n "$owner" ]; then
  case $owner in
    *:*) chown -hR "$owner" "$scratch" ;;
    *) chown -hR "$owner:$owner" "$scratch" 2> /dev/null || chown -hR "$owner:" "$scratch" ;;
  esac
fi
if [ -n "$mode" ]; then
  if [ -d "$found" ] && [ ! -L "$found" ]; then
    find "$found" -mindepth 1 ! -type l -exec chmod "$mode" {} +
  elif [ ! -L "$found" ]; then
    chmod "$mode" "$found"
  fi
fi
over=
if cp --help 2>&1 | grep -q -- --remove-destination; then over=--remove-destination; fi
if [ -L "$found" ] || [ ! -d "$found" ]; then
  case $target in
    */) mkdir -p "$target" ;;
    *) mkdir -p "$(dirname "$target")" ;;
  esac
  mv -f "$found" "$target"
elif [ ! -e "$target" ] && [ ! -L "$target" ] && [ "$found" != "$scratch/" ]; then
  while [ "${target%/}" != "$target" ]; do target=${target%/}; done
  mkdir -p "$(dirname "$target")"
  if [ -n "$mode" ]; then chmod "$mode" "$found"; fi
  mv "$found" "$target"
else
  if [ ! -d "$target" ]; then
    mkdir -p "$target"
    if [ -n "$owner" ]; then chown "$(stat -c %u:%g "$scratch")" "$target"; fi
  fi
  for entry in "$found"/* "$found"/.[!.]* "$found"/..?*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then cp -a $over "$entry" "$target/"; fi
  done
fi
"""
"""Arguments: static prefix of the source, target, owner or nothing, mode or nothing, current user,
workdir or nothing, ``-z`` for a compressed tar. The tar comes on standard input."""

FINALIZE: Final = r"""
set -eu
virtual=$1 template=$2 build=$3 path=$4 at=${SBX_ROOT-}
mkdir -p "$at/code" "$at/usr/local" "$at/home/user"
chmod 777 "$at/code" "$at/usr/local"
if [ -z "$virtual" ]; then chown user: /home/user; fi
rm -f "$at/.e2b"
printf 'ENV_ID=%s\nTEMPLATE_ID=%s\nBUILD_ID=%s\n' "$template" "$template" "$build" > "$at/.e2b"
if [ -n "$path" ]; then
  # Login shells set the search path anew; this gives them the template's.
  mkdir -p "$at/etc/profile.d"
  printf '%s\n' "$path" > "$at"/etc/profile.d/zz-template-path.sh
fi
"""
"""Arguments: ``virtual``, template id, build id, a shell line that sets the search path."""
