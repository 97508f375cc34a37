"""Whether this is a container: a place that can be thrown away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_SIGNS: Final = ("/.dockerenv", "/run/.containerenv", "/run/host/container-manager")
_VARIABLES: Final = ("container", "KUBERNETES_SERVICE_HOST")
_ALL_IDS: Final = ("0", "0", "4294967295")


def is_container() -> bool:
    """Whether a container engine left a sign, or the ids here are not those of the machine."""
    if any(Path(sign).exists() for sign in _SIGNS) or any(map(os.environ.get, _VARIABLES)):
        return True
    try:
        return tuple(Path("/proc/self/uid_map").read_text().split()) != _ALL_IDS
    except OSError:
        return False
