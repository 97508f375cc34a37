"""Puts layers together into one, as an overlay would show them: a program of its own.

``merge.py <target> <topmost layer> ... <lowest layer>``. Removals stay in the result, since the
stock layer below them is not part of it. Whoever runs it needs the rights of the sandboxes' root.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from typing import Final

_OPAQUE: Final = ("trusted.overlay.opaque", "user.overlay.opaque")


def merge(target: str, layers: list[str]) -> None:
    """Make ``target`` of layers, topmost first. Raises ``OSError``, ``CalledProcessError``."""
    os.mkdir(target)
    for layer in reversed(layers):
        _make_way(layer, target)
        # Whiteouts, ids, times, holes, links and attributes as they are.
        subprocess.run(
            ["cp", "-a", "--reflink=auto", "-T", "--", layer, target],
            check=True,
            capture_output=True,
        )


def _make_way(layer: str, target: str) -> None:
    """Remove from ``target`` whatever is hidden by a layer that comes to lie on it."""
    with os.scandir(layer) as entries:
        for entry in entries:
            below = os.path.join(target, entry.name)
            try:
                mode = os.lstat(below).st_mode
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(mode):
                os.unlink(below)
            elif not entry.is_dir(follow_symlinks=False) or _is_opaque(entry.path):
                shutil.rmtree(below)
            else:
                _make_way(entry.path, below)


def _is_opaque(folder: str) -> bool:
    for name in _OPAQUE:
        try:
            if os.getxattr(folder, name, follow_symlinks=False) in (b"y", b"x"):
                return True
        except OSError:
            continue
    return False


if __name__ == "__main__":
    try:
        merge(sys.argv[1], sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr.decode(errors="replace")[-2000:])
    except OSError as error:
        sys.exit(f"{error.strerror}: {error.filename}")
