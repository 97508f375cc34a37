"""Reads long lists with two processors: a fork does the second half."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final, TypeVar

from sbx_jupyter.agent.wire import write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

T = TypeVar("T")

Lines = list[tuple[str, str]]
"""Texts without line ends, each with a remark that most of them do not have."""

WORTHWHILE: Final = 4096
"""Items from which on a fork is worth its millisecond."""


def read_in_parallel(items: Sequence[T], read: Callable[[Sequence[T]], Lines]) -> Lines:
    """What ``read`` makes of all items; where a fork cannot be had, or dies, without one."""
    if len(items) < WORTHWHILE:
        return read(items)
    middle = len(items) // 2
    try:
        result = os.memfd_create("half", os.MFD_CLOEXEC)
    except OSError:
        return read(items)
    try:
        pid = os.fork()
    except OSError:
        os.close(result)
        return read(items)
    if pid == 0:
        _read_and_exit(result, items[middle:], read)
    try:
        try:
            first = read(items[:middle])
        finally:
            _, status = os.waitpid(pid, 0)
        second = _load(result) if status == 0 else read(items[middle:])
    finally:
        os.close(result)
    return first + second


def _read_and_exit(
    result: int, items: Sequence[T], read: Callable[[Sequence[T]], Lines]
) -> NoReturn:
    try:
        lines = read(items)
        remarks = {index: remark for index, (_, remark) in enumerate(lines) if remark}
        text = "\n".join([json.dumps(remarks), *(line for line, _ in lines)])
        write_all(result, text.encode())
        os._exit(0)
    finally:
        os._exit(1)


def _load(result: int) -> Lines:
    text = os.pread(result, os.fstat(result).st_size, 0).decode()
    head, *lines = text.split("\n")
    remarks: dict[str, str] = json.loads(head)
    if not remarks:
        return [(line, "") for line in lines]
    return [(line, remarks.get(str(index), "")) for index, line in enumerate(lines)]
