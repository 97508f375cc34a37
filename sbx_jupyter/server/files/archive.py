"""Route that downloads a folder of a sandbox as a zip or tar, while it is read."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.client.files.files import Files
from sbx_jupyter.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SbxError,
)
from sbx_jupyter.protocol.runtime import DIRECTORY, FILE
from sbx_jupyter.server.answers import SandboxRoute, logged
from sbx_jupyter.server.description.operations import DOWNLOAD, PATH, Parameter
from sbx_jupyter.server.files.content import announce_download
from sbx_jupyter.server.files.entries import read_entries
from sbx_jupyter.server.files.packing import Member, create_packer, safe_name

if TYPE_CHECKING:
    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.client.files.files import FileStream
    from sbx_jupyter.protocol.runtime import EntryInfo
    from sbx_jupyter.server.files.packing import Packer

MAX_ENTRIES: Final = 100_000
MAX_DEPTH: Final = 100
MAX_AT_ONCE: Final = 8
MAX_NAMED: Final = 1000
"""The most entries named in the list of what was left out."""

_UNREADABLE: Final = (NotFoundError, PermissionDeniedError, InvalidArgumentError)


class FolderPlan:
    """Decides which entries of a folder go into an archive, and which do not."""

    def __init__(self, root: EntryInfo) -> None:
        self.top = safe_name(root.name.strip("/")) or "root"
        """The folder in the archive that holds all others."""
        self.entries: list[tuple[Member, str]] = [(Member(self.top, is_directory=True), "")]
        """Members, each with its path in the sandbox."""
        self.left_out: list[str] = []
        self.left_out_count = 0
        self._prefix = root.path.rstrip("/") + "/"
        self._names = {self.top}

    def add(self, entry: EntryInfo) -> None:
        """Plan one entry; raises ``ResourceExhaustedError`` when there are too many."""
        if len(self.entries) + self.left_out_count > MAX_ENTRIES:
            raise ResourceExhaustedError(
                f"the folder has more than {MAX_ENTRIES} entries: pack it in a terminal"
            )
        inside = entry.path.removeprefix(self._prefix)
        name = None if inside == entry.path else safe_name(inside)
        is_directory = entry.type == DIRECTORY
        if entry.is_link:
            self.leave_out(inside, "a link")
        elif entry.type not in (DIRECTORY, FILE):
            self.leave_out(inside, "neither a file nor a folder")
        elif name is None:
            self.leave_out(inside, "its name could lead out of the folder")
        elif f"{self.top}/{name}" in self._names:
            self.leave_out(inside, "another one has the same name in an archive")
        elif is_directory and name.count("/") >= MAX_DEPTH - 1:
            raise ResourceExhaustedError(f"folders are nested more than {MAX_DEPTH} deep")
        else:
            name = f"{self.top}/{name}"
            self._names.add(name)
            mode = entry.mode or (0o755 if is_directory else 0o644)
            member = Member(name, is_directory, entry.size, mode, entry.modified_time)
            self.entries.append((member, entry.path))

    def leave_out(self, name: str, reason: str) -> None:
        """Note that an entry is missing from the archive."""
        self.left_out_count += 1
        if len(self.left_out) < MAX_NAMED:
            shown = "".join(each if each.isprintable() else "_" for each in name)
            self.left_out.append(f"{shown}: {reason}")

    def note(self) -> tuple[Member, bytes] | None:
        """A text file that names what was left out; ``None`` if nothing was."""
        if not self.left_out_count:
            return None
        more = self.left_out_count - len(self.left_out)
        lines = [
            "Left out of this archive:",
            "",
            *self.left_out,
            *([f"and {more} more"] * (more > 0)),
        ]
        text = ("\n".join(lines) + "\n").encode("utf-8", "replace")
        name = next(
            name
            for count in range(len(self._names) + 1)
            if (name := f"{self.top}/LEFT-OUT{count or ''}.txt") not in self._names
        )
        return Member(name, size=len(text)), text


async def plan_folder(runtime: RuntimeClient, path: str) -> FolderPlan:
    """List a folder; raises ``ResourceExhaustedError`` when there is too much in it."""
    root = await Files(runtime).get_info(path)
    if root.type != DIRECTORY:
        raise InvalidArgumentError(f"'{path}' is not a directory")
    plan = FolderPlan(root)
    async with contextlib.aclosing(read_entries(runtime, root.path, MAX_DEPTH)) as pieces:
        async for found in pieces:
            for entry in found:
                plan.add(entry)
    return plan


class ArchiveHandler(SandboxRoute):
    """Downloads a folder as a zip, streamed; ``format`` may be ``tar`` or ``tar.gz``.

    All names are below one folder. Links, devices and files that cannot be read are left out, and
    named in ``LEFT-OUT.txt``. When a file changes while it is read, the connection is cut.
    """

    queries: ClassVar = {
        "get": (PATH, Parameter("format", "Default: zip.", Literal["zip", "tar", "tar.gz"]))
    }
    answers: ClassVar = {"get": DOWNLOAD}

    _open = 0

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        format = self.get_query_argument("format", "zip")
        packer = create_packer(format)
        if ArchiveHandler._open >= MAX_AT_ONCE:
            raise ResourceExhaustedError("too many folders are downloaded at once; try again later")
        ArchiveHandler._open += 1
        try:
            runtime = await self.connection.runtime(sandbox_id)
            plan = await plan_folder(runtime, self.get_query_argument("path", "", strip=False))
            announce_download(self, f"{plan.top}.{format}")
            await self._send(packer, Files(runtime), plan)
        finally:
            ArchiveHandler._open -= 1

    async def _send(self, packer: Packer, files: Files, plan: FolderPlan) -> None:
        try:
            for member, path in plan.entries:
                await self._pack(packer, files, plan, member, path)
            if (note := plan.note()) is not None:
                packer.begin(note[0])
                packer.write(note[1])
                packer.end()
            packer.finish()
            await self._pass_on(packer)
        except SbxError as error:
            if not self._headers_written:
                raise
            self.log.warning("the download of a folder was cut off: %s", logged(error))
            connection: Any = self.request.connection
            connection.stream.close()
        except StreamClosedError:
            return
        else:
            self.finish(set_content_type="application/octet-stream")

    async def _pack(
        self, packer: Packer, files: Files, plan: FolderPlan, member: Member, path: str
    ) -> None:
        if member.is_directory:
            packer.begin(member)
            await self._pass_on(packer)
            return
        try:
            stream = await files.read(path, "stream")
        except _UNREADABLE as error:
            plan.leave_out(member.name.partition("/")[2], error.message)
            return
        async with stream:
            if stream.size is None:
                plan.leave_out(member.name.partition("/")[2], "its size is not known")
                return
            sized = Member(member.name, False, stream.size, member.mode, member.modified)
            await self._copy(packer, stream, sized)

    async def _copy(self, packer: Packer, stream: FileStream, member: Member) -> None:
        packer.begin(member)
        left = member.size
        async for chunk in stream:
            left -= len(chunk)
            await asyncio.to_thread(packer.write, chunk)
            await self._pass_on(packer)
        if left:
            raise DataLossError(f"'{member.name}' changed while it was read")
        packer.end()
        await self._pass_on(packer)

    async def _pass_on(self, packer: Packer) -> None:
        """Send what was packed; waits while the browser is slow."""
        if chunk := packer.take():
            self.write(chunk)  # pyright: ignore[reportUnknownMemberType] - tornado's dict
            await self.flush()
