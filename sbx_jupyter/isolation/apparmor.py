"""The AppArmor profile by which one Python may make user namespaces, where others may not.

Ubuntu 23.10 and later refuse them to programs without such a profile. Switching that off changes
the whole machine; a profile names one program.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Final

_SWITCH: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_OWN_LABEL: Final = Path("/proc/self/attr/current")
_PATTERN: Final = re.compile(r"[*?\[\]{}^@]")
_FOLDER: Final = "/etc/apparmor.d"


def restricts_namespaces() -> bool:
    """Whether AppArmor refuses user namespaces to programs without a profile."""
    try:
        return _SWITCH.read_text().strip() == "1"
    except PermissionError:
        return True  # kernels with the switch restrict, unless root has turned it off
    except OSError:
        return False


def confining_profile() -> str:
    """The name of the profile that AppArmor holds this program to; empty if there is none."""
    try:
        name, _, mode = _OWN_LABEL.read_text().strip(" \n\0").rpartition(" ")
    except OSError:
        return ""
    return name if mode == "(enforce)" else ""


def interpreter() -> str:
    """The program that runs this Python: AppArmor knows it by its path without links."""
    return os.path.realpath(sys.executable)


def is_shared(program: str) -> bool:
    """Whether other environments run the same program, so that a profile is theirs, too."""
    return not Path(program).is_relative_to(os.path.realpath(sys.prefix))


def name_of(program: str) -> str:
    """The name of the profile of a program."""
    return f"sbx-jupyter-{hashlib.sha256(os.fsencode(program)).hexdigest()[:8]}"


def profile(program: str) -> str:
    """The text of the profile. Raises ``ValueError`` for a path that AppArmor cannot quote."""
    if any(character in program for character in '"\n\\'):
        raise ValueError(f"AppArmor cannot name the program {program!r}")
    path = _PATTERN.sub(r"\\\g<0>", program)
    return f"""\
# Lets this Python make user namespaces, for sbx-jupyter. Written by: jupyter sbx doctor --apparmor
abi <abi/4.0>,
include <tunables/global>

profile {name_of(program)} "{path}" flags=(unconfined) {{
  userns,
  include if exists <local/{name_of(program)}>
}}
"""


def load_command() -> str:
    """The command that puts the profile of this Python into force, now and after a restart."""
    file = f"{_FOLDER}/{name_of(interpreter())}"
    return (
        f"jupyter sbx doctor --apparmor | sudo tee {file} > /dev/null && "
        f"sudo apparmor_parser --replace {file}"
    )


def remove_command() -> str:
    """The command that takes it back."""
    file = f"{_FOLDER}/{name_of(interpreter())}"
    return f"sudo apparmor_parser --remove {file} && sudo rm {file}"
