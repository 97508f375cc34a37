"""Test which system calls reach the kernel from a sandbox, call by call, on both machines."""

from __future__ import annotations

import errno
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.kernel import bpf, call_numbers, seccomp
from sbx_jupyter.isolation.kernel.allowed_calls import ALLOWED, FORBIDDEN
from sbx_jupyter.isolation.kernel.call_numbers import AARCH64, NUMBERS, X86_64
from sbx_jupyter.isolation.loopback.rules import BROKERED

from .filter_machine import verdict
from .numbered_calls import made_and_refused

if TYPE_CHECKING:
    from tests.isolation.inside import Inside

MACHINES: Final = (X86_64, AARCH64)
TIERS: Final[dict[str, dict[str, bool]]] = {
    "own ids": {},
    "one id": {"virtual_users": True},
    "landlock": {"virtual_users": True, "deny_sockets": True},
    "loopback": {"virtual_users": True, "deny_sockets": True, "loopback": True},
}
PARTS: Final = [
    {**flags, "hold_processors": held}
    for flags, held in itertools.product(TIERS.values(), (False, True))
]
NEWEST: Final = max(NUMBERS[X86_64].values())
ENOSYS: Final = bpf.ERRNO | errno.ENOSYS
EPERM: Final = bpf.ERRNO | errno.EPERM
FAMILY: Final = bpf.ERRNO | errno.EAFNOSUPPORT

ALWAYS_REFUSED: Final = {
    # What isolation forbids, by number: it must not depend on any list of the product.
    X86_64: (
        165, 166, 155, 428, 429, 430, 431, 432, 433, 442, 467, 272, 308, 246, 320, 321, 298, 323,
        248, 249, 250, 425, 426, 427, 304, 303, 175, 313, 176, 169, 167, 168, 179, 443, 163, 103,
        153, 164, 227, 305, 159, 172, 173, 154, 180, 212, 312, 256, 279, 237, 238, 300, 460,
    ),
    AARCH64: (
        40, 39, 41, 428, 429, 430, 431, 432, 433, 442, 467, 97, 268, 104, 294, 280, 241, 282, 217,
        218, 219, 425, 426, 427, 265, 264, 105, 273, 106, 142, 224, 225, 60, 443, 89, 116, 58, 170,
        112, 266, 171, 42, 18, 272, 238, 239, 235, 237, 262, 460,
    ),
}  # fmt: skip


def asked(machine: str, name: str, *arguments: int, **flags: bool) -> int:
    """The first filter's answer to a call."""
    program = seccomp.build(machine=machine, **flags)
    return verdict(program, NUMBERS[machine][name], *arguments, machine=machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags", PARTS)
def test_every_number_has_the_answer_of_its_rule(machine: str, flags: dict[str, bool]) -> None:
    program = seccomp.build(machine=machine, **flags)
    rules = {
        NUMBERS[machine][name]: rule
        for name, rule in seccomp.rules(**flags).items()
        if name in NUMBERS[machine]
    }
    prologue = program[: 8 * 3]
    for number in range(NEWEST + 200):
        alone = prologue + b"".join(rules.get(number, bpf.answer(ENOSYS)))
        found = verdict(program, number, machine=machine)
        assert found == verdict(alone, number, machine=machine), number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags", PARTS)
def test_calls_that_a_newer_kernel_brings_do_not_exist(
    machine: str, flags: dict[str, bool]
) -> None:
    program = seccomp.build(machine=machine, **flags)
    for number in (*range(NEWEST + 1, NEWEST + 600), 0x3FFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF):
        assert verdict(program, number, machine=machine) == ENOSYS, number


@pytest.mark.parametrize("flags", PARTS)
def test_x32_calls_do_not_exist_and_foreign_ones_kill(flags: dict[str, bool]) -> None:
    program = seccomp.build(machine=X86_64, **flags)
    for number in range(600):
        assert verdict(program, 0x40000000 + number, machine=X86_64) == ENOSYS
        assert verdict(program, number, machine=X86_64, foreign=True) == bpf.KILL_PROCESS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags", PARTS)
def test_what_isolation_forbids_is_refused_by_name(machine: str, flags: dict[str, bool]) -> None:
    program = seccomp.build(machine=machine, **flags)
    for number in ALWAYS_REFUSED[machine]:
        assert verdict(program, number, machine=machine) == EPERM, number
    clone = NUMBERS[machine]["clone"]
    for flag in (0x10000000, 0x20000, 0x20000000, 0x8000000, 0x4000000, 0x40000000, 0x2000000):
        assert verdict(program, clone, flag | 17, machine=machine) == EPERM
    assert verdict(program, clone, 0x1200011, machine=machine) == bpf.ALLOWED
    assert asked(machine, "clone3", **flags) == ENOSYS  # so that libc uses clone


def test_no_call_is_both_allowed_and_forbidden_and_each_has_a_number() -> None:
    assert not ALLOWED & FORBIDDEN
    known = NUMBERS[X86_64].keys() | NUMBERS[AARCH64].keys()
    assert known >= ALLOWED | FORBIDDEN | {*seccomp.PRETENDED, *shared_ids.SUPERVISED}
    for machine in MACHINES:
        assert len(set(NUMBERS[machine].values())) == len(NUMBERS[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_of_four_families(machine: str) -> None:
    families = [n for n in range(64) if asked(machine, "socket", n, 1) == bpf.ALLOWED]
    assert families == [1, 2, 10, 16]
    assert asked(machine, "socket", 38, 5) == FAMILY
    assert asked(machine, "socketpair", 30, 5) == FAMILY
    assert asked(machine, "socketpair", 1, 2) == bpf.ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("family", [2, 10])
def test_other_protocols_load_no_module(machine: str, family: int) -> None:
    found = [n for n in range(300) if asked(machine, "socket", family, 1, n) == bpf.ALLOWED]
    assert found == [0, 1, 6, 17, 58]
    assert asked(machine, "socket", family, 5, 132) == bpf.ERRNO | errno.EPROTONOSUPPORT  # SCTP
    assert asked(machine, "socket", 16, 3, 15) == bpf.ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags", PARTS)
def test_the_limit_of_core_dumps_stays(machine: str, flags: dict[str, bool]) -> None:
    assert asked(machine, "setrlimit", 4, **flags) == bpf.ERRNO
    assert asked(machine, "setrlimit", 7, **flags) == bpf.ALLOWED
    for new in (1, 1 << 40):
        assert asked(machine, "prlimit64", 0, 4, new, **flags) == bpf.ERRNO
    assert asked(machine, "prlimit64", 0, 4, 0, **flags) == bpf.ALLOWED
    assert asked(machine, "prlimit64", 0, 7, 1, **flags) == bpf.ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_the_landlock_tier_has_connected_pairs_only(machine: str) -> None:
    flags = TIERS["landlock"]
    assert {asked(machine, "socket", n, 1, **flags) for n in range(64)} == {FAMILY}
    kinds = [n for n in range(16) if asked(machine, "socketpair", 1, n, **flags) == bpf.ALLOWED]
    assert kinds == [1, 5]
    assert asked(machine, "socketpair", 1, 1 | 0o2000000, **flags) == bpf.ALLOWED
    assert asked(machine, "sendto", 3, 0, 1, 0, 1 << 40, **flags) == EPERM
    assert asked(machine, "sendto", 3, 0, 1, 0, 0, **flags) == bpf.ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_only_streams_reach_the_keeper(machine: str) -> None:
    flags = TIERS["loopback"]
    streams = [n for n in range(64) if asked(machine, "socket", n, 1, **flags) == bpf.ALLOWED]
    assert streams == [1, 2, 10]
    assert asked(machine, "socket", 16, 3, **flags) == bpf.ERRNO | errno.EOPNOTSUPP
    assert {asked(machine, "socket", 2, n, **flags) for n in range(16) if n != 1} == {
        bpf.ERRNO | errno.EPROTONOSUPPORT
    }
    assert asked(machine, "socketpair", 1, 2, **flags) == bpf.ERRNO | errno.ESOCKTNOSUPPORT
    assert asked(machine, "sendto", 3, 0, 1, 0, 1 << 40, **flags) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_the_second_filter_hands_sockets_to_the_keeper(machine: str) -> None:
    program = shared_ids.build(loopback=True, machine=machine)

    def answer(name: str, *arguments: int) -> int:
        return verdict(program, NUMBERS[machine][name], *arguments, machine=machine)

    options = {(1, 47): EPERM, (1, 76): EPERM, (1, 15): bpf.ERRNO, (41, 26): bpf.NOTIFY}
    options |= {(1, 9): bpf.ALLOWED, (6, 1): bpf.ERRNO, (0, 1): bpf.ERRNO, (41, 1): bpf.ERRNO}
    assert {option: answer("setsockopt", 3, *option) for option in options} == options
    options = {(1, 47): EPERM, (1, 77): EPERM, (1, 3): bpf.ALLOWED, (6, 1): bpf.NOTIFY}
    options |= dict.fromkeys([(1, 4), (1, 30), (1, 38), (1, 39)], bpf.NOTIFY)
    assert {option: answer("getsockopt", 3, *option) for option in options} == options
    for name in set(BROKERED) - {"setsockopt", "getsockopt"}:
        assert answer(name) == bpf.NOTIFY
    assert answer("ioctl", 3, 0x8912) == bpf.ERRNO | errno.ENOTTY
    assert answer("ioctl", 3, 0x8905) == bpf.ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_are_examined(machine: str) -> None:
    for request in (0x5412, 0x541C, 0x5423, 0x5000940E, 0x50009418):
        assert asked(machine, "ioctl", 0, request) == EPERM
    assert asked(machine, "ioctl", 0, 0x5413) == bpf.ALLOWED
    for persona in (0, 8, 0x20000, 0x40000, 0xFFFFFFFF):
        assert asked(machine, "personality", persona) == bpf.ALLOWED
    assert asked(machine, "personality", 0x0400000) == EPERM  # READ_IMPLIES_EXEC
    assert asked(machine, "setuid", 0, virtual_users=True) == bpf.ERRNO
    assert asked(machine, "sched_setaffinity", 0, hold_processors=True) == bpf.ERRNO


@pytest.mark.parametrize("machine", MACHINES)
def test_the_second_filter_examines_what_one_id_can_do_to_another_program(machine: str) -> None:
    program = shared_ids.build(machine=machine)

    def answer(name: str, *arguments: int) -> int:
        return verdict(program, NUMBERS[machine][name], *arguments, machine=machine)

    for name in set(shared_ids.SUPERVISED) & NUMBERS[machine].keys():
        assert answer(name) == bpf.NOTIFY
    for name in ("prlimit64", "sched_setparam", "sched_setattr", "sched_setaffinity"):
        assert [answer(name, who) for who in (0, 7)] == [bpf.ALLOWED, EPERM]
    scheduled = [answer("sched_setscheduler", *asked) for asked in ((0, 5), (7, 0), (7, 5))]
    assert scheduled == [bpf.ALLOWED, bpf.ERRNO, EPERM]
    assert [answer("setpriority", *who) for who in ((0, 0), (0, 7), (2, 0))] == [
        bpf.ALLOWED, EPERM, EPERM,
    ]  # fmt: skip
    assert [answer("ioprio_set", *who) for who in ((1, 0), (1, 7), (3, 0))] == [
        bpf.ALLOWED, EPERM, EPERM,
    ]  # fmt: skip
    assert answer("fcntl", 0, 1024) == EPERM
    assert answer("ioctl", 0, 0x40086602) == bpf.ERRNO | errno.ENOTTY
    assert answer("ioctl", 0, 0x80086601) == answer("ioctl", 0, 0x5413) == bpf.ALLOWED
    for name in ("shmget", "inotify_add_watch", "mq_open"):
        assert answer(name) == EPERM
    assert answer("setxattr") == bpf.ERRNO | errno.ENOTSUP


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_is_short_and_a_decision_takes_few_steps(machine: str) -> None:
    for flags in PARTS:
        assert len(seccomp.build(machine=machine, **flags)) // 8 < 300


HEADERS: Final = {
    X86_64: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    AARCH64: Path("/usr/include/aarch64-linux-gnu/asm/unistd_64.h"),
}


def test_the_numbers_are_those_of_the_kernel_headers() -> None:
    header = HEADERS[call_numbers.HERE]
    if not header.exists():
        pytest.skip(f"needs {header}: apt-get install linux-libc-dev")
    found = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE))
    assert len(found) > 300
    for name, number in NUMBERS[call_numbers.HERE].items():
        assert int(found.get(name, number)) == number, name


async def test_the_kernel_of_this_machine_answers_as_the_filter_says(box: Inside) -> None:
    assert_refused(json.loads((await box.run(made_and_refused(), user="root")).out))


def assert_refused(seen: dict[str, Any]) -> None:
    """Hold what ``made_and_refused`` printed to the lists."""
    names = {number: name for name, number in NUMBERS[call_numbers.HERE].items()}
    told = {int(number): code for number, code in seen.items()}
    assert len(told) > 500
    for number, code in told.items():
        is_refused = names.get(number) in FORBIDDEN
        assert code == (errno.EPERM if is_refused else errno.ENOSYS), names.get(number, number)
