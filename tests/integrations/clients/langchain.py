"""langchain-e2b: the sandbox of deep agents, blocking and asynchronous."""

from __future__ import annotations

import asyncio

from e2b import AsyncSandbox, Sandbox
from langchain_e2b import AsyncE2BSandbox, E2BSandbox
from named_checks import check

NOTES = "/home/user/notes.txt"

with Sandbox.create(template="base", timeout=120) as made:
    sandbox = E2BSandbox(sandbox=made)
    with check("execute"):
        done = sandbox.execute("echo $((6 * 7)); echo oops >&2; exit 3")
        assert done.exit_code == 3, done
        assert "42" in done.output, done
        assert "oops" in done.output, done
    with check("upload_and_download"):
        (written,) = sandbox.upload_files([(NOTES, b"first\nsecond\n")])
        assert written.error is None, written
        (read,) = sandbox.download_files([NOTES])
        assert read.content == b"first\nsecond\n", read
    with check("missing_file"):
        (missing,) = sandbox.download_files(["/home/user/none"])
        assert missing.error == "file_not_found", missing
    with check("ls"):
        names = [entry["path"] for entry in sandbox.ls("/home/user").entries or []]
        assert NOTES in names, names
    with check("read"):
        assert "second" in str(sandbox.read(NOTES)), sandbox.read(NOTES)
    with check("edit"):
        sandbox.edit(NOTES, "second", "changed")
        (read,) = sandbox.download_files([NOTES])
        assert read.content == b"first\nchanged\n", read


async def main() -> None:
    async with await AsyncSandbox.create(template="base", timeout=120) as made:
        sandbox = AsyncE2BSandbox(sandbox=made)
        with check("async_execute"):
            assert (await sandbox.aexecute("echo async")).output.strip() == "async"
        with check("async_write_and_read"):
            await sandbox.awrite("/home/user/a.txt", "text")
            assert "text" in str(await sandbox.aread("/home/user/a.txt"))


asyncio.run(main())
