"""Writes ``docs/system-calls.md`` from the filters: ``python -m tests.docs.system_calls``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.kernel import bpf, seccomp
from sbx_jupyter.isolation.kernel.allowed_calls import ALLOWED_GROUPS, FORBIDDEN_GROUPS
from sbx_jupyter.isolation.loopback.rules import BROKERED

PAGE: Final = Path(__file__).parents[2] / "docs" / "system-calls.md"

INTRODUCTION: Final = """
# System calls of a sandbox

Every program in a sandbox runs under a filter of system calls. It is a list of what is allowed,
not of what is denied:

- Calls of the list reach the kernel, some of them with certain arguments only.
- Calls that are refused by name fail with `EPERM`.
- Every other call fails with `ENOSYS`, as on an older kernel, and programs use their substitute.
  That holds for `clone3` and for all calls that a newer kernel brings.
- Calls of another architecture (32-bit x86 or ARM) kill the caller; those of x32 fail with
  `ENOSYS`.

The list is the one that container engines allow without a capability: the default profile of
[moby/profiles](https://github.com/moby/profiles/blob/main/seccomp/default.json), at commit
02e898b137ae, read on 2026-11-22. We took out what is refused below, `memfd_secret`, whose memory no
limit counts, and all families of sockets but four. We added one `personality`.

This page is written by `python -m tests.docs.system_calls`, and a test compares the two.
"""

EXAMINED: Final = {
    "clone": "`EPERM` for a new namespace",
    "ioctl": "`EPERM` for typing into a terminal (`TIOCSTI`, `TIOCLINUX`), other line disciplines "
    "(`TIOCSETD`) and new btrfs subvolumes",
    "personality": "`EPERM` but for Linux, 32-bit Linux, `UNAME26`, `ADDR_NO_RANDOMIZE`, a query",
    "prlimit64": "no effect on the size of core dumps, which are never saved",
    "setrlimit": "the same",
    "socket": "Unix, IPv4, IPv6 and netlink; `EAFNOSUPPORT` for every other family, and "
    "`EPROTONOSUPPORT` for other protocols of IP than TCP, UDP and ICMP",
    "socketpair": "the same families",
}
"""The calls whose arguments the first filter examines, in every tier."""

IN_LANDLOCK: Final = {
    "socket": "Unix, IPv4 and IPv6 streams, which the keeper makes; `EPROTONOSUPPORT` for "
    "other kinds, `EOPNOTSUPP` for netlink, `EAFNOSUPPORT` otherwise",
    "socketpair": "Unix streams and sequenced packets; `EAFNOSUPPORT`, `ESOCKTNOSUPPORT` otherwise",
    "sendto": "`EPERM` with an address",
}
"""What the first filter adds in the Landlock tier, which has no network namespace."""

SECOND: Final = {
    "ioctl": "`ENOTTY` for changes of flags, attributes and subvolumes of file systems, and "
    "for what sockets tell of the machine's network",
    "fcntl": "`EPERM` for leases",
    **dict.fromkeys(
        ("prlimit64", "sched_setattr", "sched_setparam", "setpriority", "ioprio_set",
         "sched_setaffinity"),
        "`EPERM` for any process but the caller",
    ),
    "sched_setscheduler": "no effect with `SCHED_OTHER`, else `EPERM`, for any but the caller",
    "setsockopt": "the keeper sets `IPV6_V6ONLY`; no effect for other options of IP and TCP and "
    "for `SO_REUSEPORT`; `EPERM` for `SO_MAX_PACING_RATE` and `SO_PASSPIDFD`",
    "getsockopt": "the keeper answers for IP, TCP, domain, protocol, listening and errors; "
    "`EPERM` for `SO_MAX_PACING_RATE` and `SO_PEERPIDFD`",
}  # fmt: skip
"""The calls whose arguments the second filter of the Landlock tier examines."""


NO_LOOPBACK: Final = (
    "Where the keeper may not use `pidfd_getfd`, `socket` fails with `EAFNOSUPPORT`, `bind` and "
    "`connect` with `EPERM`, and the other calls about sockets go to the kernel."
)


BEFORE_TRUNCATE: Final = (
    "Below Landlock 3 (Linux 6.2) the keeper does `truncate` too, `open` and `openat` fail with "
    "`EACCES` where they would empty a file that they open to read, and `openat2` fails with "
    "`ENOSYS`."
)


def page() -> str:
    """The text of the page. Raises ``AssertionError`` for a rule that has no words here."""
    parts = [
        INTRODUCTION.strip(),
        "## Allowed, but for what the tables below say",
        *_groups(ALLOWED_GROUPS),
    ]
    parts += ["## Allowed with certain arguments", _table(EXAMINED, _examined({}))]
    parts += ["## Refused by name", *_groups(FORBIDDEN_GROUPS)]
    parts += ["## Where all ids inside are one outside", *_one_id()]
    parts += ["## In the Landlock tier, beside that", *_landlock()]
    return "\n\n".join(parts) + "\n"


def _groups(groups: dict[str, str]) -> list[str]:
    return [
        _wrapped(f"**{title[0].upper()}{title[1:]}:** ", names.split())
        for title, names in groups.items()
    ]


def _wrapped(before: str, names: list[str] | tuple[str, ...]) -> str:
    text = before + ", ".join(f"`{name}`" for name in sorted(names)) + "."
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


def _table(words: dict[str, str], rules: set[str]) -> str:
    assert set(words) == rules, set(words) ^ rules
    rows = "".join(f"| `{name}` | {words[name]} |\n" for name in sorted(words))
    return f"| call | rule |\n|---|---|\n{rows}".rstrip()


def _examined(flags: dict[str, bool]) -> set[str]:
    return {name for name, rule in seccomp.rules(**flags).items() if len(rule) > 1}


def _changed(flags: dict[str, bool], by: dict[str, bool]) -> dict[str, bpf.Rule]:
    """The rules that are others once more flags are set."""
    before, after = seccomp.rules(**flags), seccomp.rules(**{**flags, **by})
    return {name: rule for name, rule in after.items() if rule != before.get(name)}


def _one_id() -> list[str]:
    pretended = _changed({}, {"virtual_users": True})
    assert set(pretended) == set(seccomp.PRETENDED)
    held = _changed({}, {"hold_processors": True})
    assert set(held) == {"sched_setaffinity"}
    text = (
        "Such are the sandboxes of an ordinary user without subordinate ids. These calls succeed "
        "there without effect: "
    )
    processors = (
        "Where no control group shares out processor time, `sched_setaffinity` succeeds without "
        "effect too, in every tier."
    )
    return [_wrapped(text, tuple(pretended)), textwrap.fill(processors, 100)]


def _landlock() -> list[str]:
    more = {"virtual_users": True, "deny_sockets": True, "loopback": True}
    changed = _changed({"virtual_users": True}, more)
    second = shared_ids.rules(loopback=True)
    answers: dict[bpf.Rule, list[str]] = {}
    for name, rule in second.items():
        if len(rule) == 1:
            answers.setdefault(rule, []).append(name)
    asked = answers.pop(bpf.answer(bpf.NOTIFY))
    of_sockets = [name for name in asked if name in BROKERED]
    of_files = [name for name in asked if name not in BROKERED]
    refused, unsupported = answers.values()
    return [
        _table(IN_LANDLOCK, set(changed)),
        "Its programs share their id with others of the machine, so a second filter holds them:",
        _table(SECOND, {name for name, rule in second.items() if len(rule) > 1}),
        _wrapped("Refused with `EPERM`: ", refused),
        _wrapped("Fail with `ENOTSUP`: ", unsupported),
        _wrapped("Done by the keeper, for files of the sandbox only: ", of_files),
        _wrapped("Done by the keeper, for sockets of the sandbox only: ", of_sockets),
        textwrap.fill(NO_LOOPBACK, 100),
        *_older_landlock(second),
    ]


def _older_landlock(newest: dict[str, bpf.Rule]) -> list[str]:
    oldest = shared_ids.rules(loopback=True, abi=1)
    assert {name for name in oldest if oldest[name] != newest.get(name)} == {
        *shared_ids.SENDING, *shared_ids.BEFORE_TRUNCATION, "open", "openat", "openat2",
    }  # fmt: skip
    sent = [name for name in shared_ids.SENDING if name != "fcntl"]
    return [
        _wrapped("Done by the keeper below Landlock 6 (Linux 6.12), with `F_SETOWN`: ", sent),
        textwrap.fill(BEFORE_TRUNCATE, 100),
    ]


if __name__ == "__main__":
    PAGE.write_text(page())
