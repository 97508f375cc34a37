"""Joins screenshots into the moving picture of the README: ``make moving-picture``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from PIL import Image

SHOTS: Final = Path(__file__).with_name("shots")
PICTURE: Final = Path(__file__).parents[2] / "docs" / "pictures" / "tour.gif"
STEPS: Final = (
    "create", "files", "metrics", "menu", "widgets-top", "kernel-widgets", "isolation",
)  # fmt: skip
"""The views in the order of the picture, as ``make screenshots`` names them."""
_WIDTH: Final = 960
_SECONDS: Final = 2.5
_COLOURS: Final = 128
MOST_BYTES: Final = 1_500_000


def join(shots: Path, target: Path) -> int:
    """Write the picture; gives its bytes. Raises ``OSError`` when a screenshot is not there."""
    frames: list[Image.Image] = []
    for step in STEPS:
        with Image.open(shots / f"{step}-light.png") as shot:
            height = round(shot.height * _WIDTH / shot.width)
            small = shot.convert("RGB").resize((_WIDTH, height), Image.Resampling.LANCZOS)
        frames.append(small.quantize(_COLOURS, dither=Image.Dither.NONE))
    target.parent.mkdir(exist_ok=True)
    shown = {"duration": int(_SECONDS * 1000), "loop": 0, "optimize": True}
    frames[0].save(target, save_all=True, append_images=frames[1:], **shown)
    return target.stat().st_size


if __name__ == "__main__":
    size = join(Path(sys.argv[1]) if sys.argv[1:] else SHOTS, PICTURE)
    print(f"{PICTURE}: {size} bytes")
    sys.exit(size > MOST_BYTES)
