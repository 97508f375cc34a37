"""inspect-ai with inspect-sandboxes: the checks that inspect-ai has for its sandboxes."""

from __future__ import annotations

import asyncio
import sys

from inspect_ai.util._sandbox import self_check
from inspect_sandboxes.e2b._e2b import E2BSandboxEnvironment

CHECK_SECONDS = 60.0
KNOWN = {
    # Files are read and written with the rights of root (interface 3.3).
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
    # A signal ends a command with -1, not with 128 and its number (interface 3.5).
    "test_exec_timeout_not_raised_on_fast_signal_death",
    # A file that cannot be run ends with 126 instead of an exception (interface 3.5).
    "test_exec_permission_error",
    # A command is one argument of a shell, and an argument has 128 KiB at most.
    "test_exec_large_command",
    # An unknown user is an error of the call, without output (interface 3.3).
    "test_exec_as_nonexistent_user",
}
"""Checks that the interface itself does not let pass, in any deployment."""


async def main() -> int:
    checks = {name: it for name, it in vars(self_check).items() if name.startswith("test_")}
    await E2BSandboxEnvironment.task_init("self-check", None)
    environments = await E2BSandboxEnvironment.sample_init("self-check", None, {})
    failed: set[str] = set()
    try:
        for name, check in checks.items():
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await check(environments["default"])
            except Exception as error:  # whatever a check finds
                said = " ".join(str(error).split())[:300]
                print(f"{name}: {type(error).__name__}: {said}")
                failed.add(name)
    finally:
        await E2BSandboxEnvironment.sample_cleanup("self-check", None, environments, False)
    print(f"{len(checks) - len(failed)} of {len(checks)} checks pass")
    return int(not failed <= KNOWN)


sys.exit(asyncio.run(main()))
