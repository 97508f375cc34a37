"""The tables of Debian's packages in the stock root, so that apt-get and dpkg work inside.

The table of installed packages is the host's, since its ``/usr`` is what a sandbox has. The lists
of their files are thousands and stay outside: dpkg makes empty ones when it installs something.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

STATUS: Final = "var/lib/dpkg/status"

FOLDERS: Final = (
    "etc/apt/apt.conf.d",
    "var/cache/apt/archives/partial",
    "var/cache/debconf",
    "var/lib/apt/lists/partial",
    "var/lib/dpkg/info",
    "var/lib/dpkg/parts",
    "var/lib/dpkg/triggers",
    "var/lib/dpkg/updates",
    "var/log/apt",
)

COPIED: Final = (
    "etc/apt/keyrings",
    "etc/apt/preferences.d",
    "etc/apt/trusted.gpg",
    "etc/apt/trusted.gpg.d",
    "etc/debconf.conf",
    "etc/dpkg/dpkg.cfg",
    "etc/dpkg/origins",
    "etc/ucf.conf",
    "var/lib/dpkg/alternatives",
    STATUS,
)
"""Files taken from the host if all users may read them. Left out: ``auth.conf`` with passwords, and
the settings of apt, which name the host's own proxy."""

_SOURCES: Final = ("etc/apt/sources.list", "etc/apt/sources.list.d")
_CREDENTIALS: Final = re.compile(r"://[^/\s]*@")

_DPKG: Final = """\
# Packages of the machine have no list of files here; without one, dpkg complains about each.
pre-invoke=cd /var/lib/dpkg/info && [ -w . ] && dpkg-query -W -f '${binary:Package}\\n' | \
while read -r name; do [ -e "$name.list" ] || : > "$name.list"; done; true
# Nor has the C library its trigger, which would do this.
post-invoke=! [ -w /etc ] || ldconfig 2> /dev/null || true
force-unsafe-io
"""

_APT_ONE_ID: Final = """\
// All users are one id here, so apt cannot become another one to download.
APT::Sandbox::User "root";
"""


def settings(*, real_users: bool) -> dict[str, str]:
    """Files of apt and dpkg that a sandbox has and the host has not, by their path."""
    found = {"etc/dpkg/dpkg.cfg.d/sandbox": _DPKG, "var/lib/dpkg/info/format": "1\n"}
    if not real_users:
        found["etc/apt/apt.conf.d/sandbox"] = _APT_ONE_ID
    return found


def sources(host: Path = Path("/")) -> dict[str, str]:
    """The host's sources of packages by their path, but for files with a password in an address."""
    found: dict[str, str] = {}
    for name in _SOURCES:
        path = host / name
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.suffix not in (".list", ".sources") or not _is_open(file):
                continue
            text = file.read_text(errors="replace")
            if not _CREDENTIALS.search(text):
                found[str(file.relative_to(host))] = text
    return found


def _is_open(file: Path) -> bool:
    return file.is_file() and bool(file.stat().st_mode & 0o004)
