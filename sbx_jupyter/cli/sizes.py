"""Sizes in bytes as people write and read them."""

from __future__ import annotations

from typing import Final

from sbx_jupyter.errors import InvalidArgumentError

_SUFFIXES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Parse a size such as ``50G`` into bytes; raises ``InvalidArgumentError``."""
    number, suffix = text, 1
    if text[-1:].upper() in _SUFFIXES:
        number, suffix = text[:-1], _SUFFIXES[text[-1].upper()]
    if not (number.isascii() and number.isdigit()):
        raise InvalidArgumentError(f"'{text}' is not a size such as 500M or 50G")
    return int(number) * suffix


def show_size(size: int) -> str:
    """Format a number of bytes with a unit, such as ``1.5 GiB``."""
    for suffix, unit in reversed(_SUFFIXES.items()):
        if size >= unit:
            return f"{size / unit:.1f} {suffix}iB"
    return f"{size} B"
