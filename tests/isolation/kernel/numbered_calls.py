"""A command for sandboxes that makes every call which is not allowed, by number."""

from __future__ import annotations

import json
from typing import Final

from sbx_jupyter.isolation.kernel.allowed_calls import ALLOWED
from sbx_jupyter.isolation.kernel.call_numbers import HERE, NUMBERS

_CODE: Final = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
seen = {{}}
for number in set(range(1000)) - set({allowed}):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
    seen[number] = ctypes.get_errno() if result == -1 else -1
print(json.dumps(seen))
"""


def made_and_refused() -> str:
    """The command; it prints the error number of each call, -1 for one that was made."""
    allowed = sorted(NUMBERS[HERE][name] for name in ALLOWED if name in NUMBERS[HERE])
    return f"python -c '{_CODE.format(allowed=json.dumps(allowed))}'"
