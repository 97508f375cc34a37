#!/bin/sh
# Install the system packages that the tests use, where we may; else say what is missing, in one line.
# Tests without theirs are skipped; where CI is set, what is missing is an error.
set -eu

PATH="$PATH:/usr/sbin:/sbin"  # where file systems are made, which not everybody's PATH names
missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-dejavu-core"
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
for pair in git:git curl:curl sudo:sudo newuidmap:uidmap ss:iproute2 pgrep:procps setpriv:util-linux \
  busybox:busybox-static docker-registry:docker-registry mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs \
  slirp4netns:slirp4netns; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing system packages:$missing"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "Missing system packages; install them with: sudo apt-get install --no-install-recommends$missing" >&2
  [ -z "${CI:-}" ] || exit 1
fi
