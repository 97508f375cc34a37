"""Checks of the programs that fail, and why: everywhere, or in some tiers.

Each entry is a check that must fail there: docs/use-it-from.md says the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tests.tiers.rows import LANDLOCK, NONE

_TASKS: Final = (
    *("from", "workdir", "run", "env", "copy", "copy-folder"),
    *("users", "argument", "continued", "heavy"),
)
_HARBOR: Final = [f"{agent}_{task}" for agent in ("oracle", "nop") for task in _TASKS]
_AS_ROOT: Final = "inspect-sandboxes asks for files as root, whom a mode does not stop"
_MODES: Final = (
    "the kernel lets nobody there override a mode: the call fails, by an exception of e2b, and the "
    "check wants `PermissionError`"
)
_PLACE: Final = "one directory in place of a root file system: "
_WITHOUT_A_ROOT: Final[dict[str, dict[str, str]]] = {
    "inspect_ai": {
        "read_file_not_allowed": _MODES,
        "write_text_file_without_permissions": _MODES,
        "write_binary_file_without_permissions": _MODES,
        **dict.fromkeys(
            [f"exec_input_{kind}" for kind in ("text", "shell_special", "binary", "large")],
            _PLACE + "inspect-sandboxes lets the shell read the input from `/tmp/.inspect-stdin-…`",
        ),
    },
    "harbor": dict.fromkeys(
        _HARBOR, _PLACE + "tasks are built, solved and judged at paths such as `/logs/verifier`"
    ),
    "langchain": dict.fromkeys(
        ("ls", "read", "edit", "async_write_and_read"),
        _PLACE + "a program in the sandbox looks for `/home/user/notes.txt` itself",
    ),
    "openai_agents": dict.fromkeys(
        ("start", "running", "keep_workspace"), _PLACE + "its workspace is `/workspace`"
    ),
    "code_sandboxes": {
        "files": _PLACE + "code in the sandbox opens `/home/user/notes.txt`",
    },
}

EVERYWHERE: Final[dict[str, dict[str, str]]] = {
    "inspect_ai": {
        "read_file_not_allowed": _AS_ROOT,
        "write_text_file_without_permissions": _AS_ROOT,
        "write_binary_file_without_permissions": _AS_ROOT,
        "exec_timeout_not_raised_on_fast_signal_death": (
            "the interface reports the end by a signal as -1, the check wants 143"
        ),
        "exec_permission_error": (
            "a file that cannot be run is exit status 126; inspect-sandboxes raises no "
            "`PermissionError` for it"
        ),
        "exec_large_command": (
            "a command line is one argument of a shell, and Linux takes 128 KiB for one"
        ),
        "exec_as_nonexistent_user": (
            "an unknown user is an error of the call, the check wants the result of a command"
        ),
    },
}
"""By program: what the interface or the program does not let pass, in any deployment."""

BY_TIER: Final[dict[str, dict[str, dict[str, str]]]] = {
    LANDLOCK: _WITHOUT_A_ROOT
    | {
        "openai_agents": _WITHOUT_A_ROOT["openai_agents"]
        | {"write_and_read": _PLACE + "it keeps programs in `/tmp/openai-agents`"}
    },
    NONE: _WITHOUT_A_ROOT,
}
"""By kind of engine and program: what fails there besides, or for another reason."""


def differences_of(program: str, tier: str) -> dict[str, str]:
    """The checks of a program that must fail with a kind of engine, and why."""
    return EVERYWHERE.get(program, {}) | BY_TIER.get(tier, {}).get(program, {})


def unexpected(program: str, tier: str, failed: Collection[str]) -> list[str]:
    """What a program does otherwise with a kind of engine than is known, in words."""
    known = differences_of(program, tier)
    return [
        *(f"{name} fails" for name in failed if name not in known),
        *(f"{name} passes" for name in known if name not in failed),
    ]
