"""openai-agents: its sandbox client, with commands, files, a terminal and a kept workspace."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from named_checks import check

NOTES = Path("notes.txt")


async def main() -> None:
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(sandbox_type="e2b", template="base", timeout=300)
    session = await client.create(options=options)
    try:
        with check("start"):
            await session.start()
        with check("exec"):
            done = await session.exec("sh", "-c", "echo $((6 * 7)); exit 3", shell=False)
            assert (done.exit_code, done.stdout.strip()) == (3, b"42"), done
        with check("write_and_read"):
            await session.write(NOTES, io.BytesIO(b"kept"))
            assert (await session.read(NOTES)).read() == b"kept"
        with check("running"):
            assert await session.running()
        with check("keep_workspace"):
            archive = (await session.persist_workspace()).read()
            await session.exec("rm", "notes.txt", shell=False)
            await session.hydrate_workspace(io.BytesIO(archive))
            assert (await session.read(NOTES)).read() == b"kept"
    finally:
        await client.delete(session)


asyncio.run(main())
