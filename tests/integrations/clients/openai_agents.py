"""openai-agents: its sandbox client, with commands, files, a terminal and a kept workspace."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions


async def main() -> None:
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(sandbox_type="e2b", template="base", timeout=300)
    session = await client.create(options=options)
    try:
        await session.start()
        done = await session.exec("sh", "-c", "echo $((6 * 7)); exit 3", shell=False)
        assert (done.exit_code, done.stdout.strip()) == (3, b"42"), done
        await session.write(Path("notes.txt"), io.BytesIO(b"kept"))
        assert (await session.read(Path("notes.txt"))).read() == b"kept"
        assert await session.running()
        archive = (await session.persist_workspace()).read()
        await session.exec("rm", "notes.txt", shell=False)
        await session.hydrate_workspace(io.BytesIO(archive))
        assert (await session.read(Path("notes.txt"))).read() == b"kept"
    finally:
        await client.delete(session)


asyncio.run(main())
