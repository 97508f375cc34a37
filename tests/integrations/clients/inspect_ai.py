"""inspect-ai with inspect-sandboxes: the checks that inspect-ai has for its sandboxes."""

from __future__ import annotations

import asyncio

from inspect_ai.util._sandbox import self_check
from inspect_sandboxes.e2b._e2b import E2BSandboxEnvironment
from named_checks import check

CHECK_SECONDS = 60.0
START = "test_"


async def main() -> None:
    checks = {name: it for name, it in vars(self_check).items() if name.startswith(START)}
    await E2BSandboxEnvironment.task_init("self-check", None)
    environments = await E2BSandboxEnvironment.sample_init("self-check", None, {})
    try:
        for name, function in checks.items():
            with check(name.removeprefix(START)):
                async with asyncio.timeout(CHECK_SECONDS):
                    await function(environments["default"])
    finally:
        await E2BSandboxEnvironment.sample_cleanup("self-check", None, environments, False)


asyncio.run(main())
