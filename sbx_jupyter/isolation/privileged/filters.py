"""The system call filters of the engine, and of its helper and what starts that."""

from __future__ import annotations

import errno
from typing import Final

from sbx_jupyter.isolation.kernel import bpf, call_numbers, seccomp

_DENY: Final = bpf.answer(bpf.ERRNO | errno.EPERM)
_ABSENT: Final = bpf.answer(bpf.ERRNO | errno.ENOSYS)
_X32: Final = 0x40000000

NEVER_OF_ENGINE: Final = (
    "ptrace", "process_vm_readv", "process_vm_writev", "execve", "execveat", "fork", "vfork",
    "chroot", "mknod", "mknodat", "capset", "setuid", "setgid", "setreuid", "setregid",
    "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
)  # fmt: skip
"""System calls allowed in sandboxes and denied to the engine, which runs no program and changes
no id."""

NEVER_OF_HELPER: Final = (
    "add_key", "bpf", "io_uring_enter", "io_uring_register", "io_uring_setup", "keyctl",
    "perf_event_open", "request_key", "userfaultfd", "acct", "adjtimex", "clock_adjtime",
    "clock_settime", "delete_module", "finit_module", "init_module", "ioperm", "iopl",
    "kexec_file_load", "kexec_load", "open_by_handle_at", "reboot", "settimeofday", "swapoff",
    "swapon", "syslog",
)  # fmt: skip
"""No step of a supervisor, helper, zygote or sandbox needs these; all inherit the filter."""


def build_for_engine(machine: str = call_numbers.HERE) -> bytes:
    """The allow-list of sandboxes less ``NEVER_OF_ENGINE``; unlisted calls fail with ENOSYS."""
    numbers = call_numbers.NUMBERS[machine]
    rules = seccomp.rules() | dict.fromkeys(NEVER_OF_ENGINE, _DENY)
    here = {numbers[name]: rule for name, rule in rules.items() if name in numbers}
    return bpf.program(seccomp.ARCHITECTURES[machine], here, _ABSENT)


def build_for_helper(machine: str = call_numbers.HERE) -> bytes:
    """``NEVER_OF_HELPER`` fails with EPERM, in every numbering of the machine."""
    numbers = call_numbers.NUMBERS[machine]
    here = [numbers[name] for name in NEVER_OF_HELPER if name in numbers]
    if machine == call_numbers.X86_64:
        here += [number | _X32 for number in here]
    return bpf.program(seccomp.ARCHITECTURES[machine], dict.fromkeys(here, _DENY), bpf.ALLOW)


def install_for_helper() -> None:
    """Put the filter on this process and all that it starts; needs CAP_SYS_ADMIN.

    Raises ``OSError``.
    """
    seccomp.install(build_for_helper())


def install_for_engine() -> None:
    """Put the filter on this process, which needs no_new_privs. Raises ``OSError``."""
    seccomp.install(build_for_engine())
