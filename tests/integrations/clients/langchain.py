"""langchain-e2b: the sandbox of deep agents, blocking and asynchronous."""

from __future__ import annotations

import asyncio

from e2b import AsyncSandbox, Sandbox
from langchain_e2b import AsyncE2BSandbox, E2BSandbox

with Sandbox.create(template="base", timeout=120) as made:
    sandbox = E2BSandbox(sandbox=made)
    done = sandbox.execute("echo $((6 * 7)); echo oops >&2; exit 3")
    assert done.exit_code == 3, done
    assert "42" in done.output, done
    assert "oops" in done.output, done
    (written,) = sandbox.upload_files([("/home/user/notes.txt", b"first\nsecond\n")])
    assert written.error is None, written
    (read,) = sandbox.download_files(["/home/user/notes.txt"])
    assert read.content == b"first\nsecond\n", read
    (missing,) = sandbox.download_files(["/home/user/none"])
    assert missing.error == "file_not_found", missing
    names = [entry["path"] for entry in sandbox.ls("/home/user").entries or []]
    assert "/home/user/notes.txt" in names, names
    sandbox.edit("/home/user/notes.txt", "second", "changed")
    assert "changed" in str(sandbox.read("/home/user/notes.txt")), "the edit is lost"


async def main() -> None:
    async with await AsyncSandbox.create(template="base", timeout=120) as made:
        sandbox = AsyncE2BSandbox(sandbox=made)
        assert (await sandbox.aexecute("echo async")).output.strip() == "async"
        await sandbox.awrite("/home/user/a.txt", "text")
        assert "text" in str(await sandbox.aread("/home/user/a.txt"))


asyncio.run(main())
