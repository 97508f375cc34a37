"""Runs a system call filter as the kernel does, so that any call of any machine can be asked."""

from __future__ import annotations

import struct

from sbx_jupyter.isolation.kernel import bpf, seccomp


def verdict(
    program: bytes, number: int, *arguments: int, machine: str, foreign: bool = False
) -> int:
    """The answer of a filter to a call; ``foreign`` calls come through another table of calls."""
    architecture = 0x40000003 if foreign else seccomp.ARCHITECTURES[machine]
    values = [*arguments, *[0] * (6 - len(arguments))]
    record = struct.pack("=IIQ6Q", number, architecture, 0, *values)
    position = accumulator = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("HBBI", program, 8 * position)
        position += 1
        if code == bpf.RETURN:
            return value
        if code == bpf.LOAD:
            (accumulator,) = struct.unpack_from("=I", record, value)
        elif code == bpf.AND:
            accumulator &= value
        elif code == bpf.JUMP:
            position += value
        else:
            position += if_true if _holds(code, accumulator, value) else if_false


def _holds(code: int, accumulator: int, value: int) -> bool:
    if code == bpf.JUMP_EQUAL:
        return accumulator == value
    if code == bpf.JUMP_GREATER_EQUAL:
        return accumulator >= value
    assert code == bpf.JUMP_SET, hex(code)
    return bool(accumulator & value)
