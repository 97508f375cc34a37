"""Calls of the platform API on one sandbox of a connection, with this server's defaults.

Each raises ``InvalidArgumentError`` for an id that cannot be one, and the errors of its call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.errors import NotFoundError, UnimplementedError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.platform import NewSandbox
from sbx_jupyter.server.deployments.listing import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.protocol.platform import ListedSandbox, SandboxMetric, VolumeMount
    from sbx_jupyter.server.deployments.connection import Connection


async def get(connection: Connection, sandbox_id: str) -> ListedSandbox:
    """Describe a sandbox; raises ``NotFoundError``."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    found = view_of(await connection.call(lambda platform: platform.get(sandbox_id)))
    connection.note_seen(sandbox_id)
    return found


async def create(
    connection: Connection,
    *,
    template: str | None,
    timeout: int | None,
    metadata: dict[str, str],
    envs: dict[str, str],
    internet: bool | None = None,
    pauses: bool = False,
    volumes: Sequence[VolumeMount] = (),
) -> ListedSandbox:
    """Create a sandbox, with this server's defaults for arguments that are ``None``.

    ``pauses``: when its time is over it is paused, not ended.
    """
    request = NewSandbox(
        template_id=template or connection.defaults.template,
        timeout=connection.defaults.timeout if timeout is None else timeout,
        metadata={**connection.defaults.metadata, **metadata},
        env_vars=envs,
        allow_internet_access=internet,
        auto_pause=pauses,
        volume_mounts=list(volumes) or None,
    )
    created = await connection.call(lambda platform: platform.create(request))
    return await get(connection, created.sandbox_id)


async def connect(connection: Connection, sandbox_id: str, timeout: int | None) -> ListedSandbox:
    """Resume a paused sandbox, or extend the time of a running one."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    seconds = connection.defaults.timeout if timeout is None else timeout
    await connection.call(lambda platform: platform.connect(sandbox_id, timeout=seconds))
    connection.forget_tokens(sandbox_id)
    return await get(connection, sandbox_id)


async def pause(connection: Connection, sandbox_id: str) -> None:
    """Pause a running sandbox."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    await connection.call(lambda platform: platform.pause(sandbox_id))


async def set_timeout(connection: Connection, sandbox_id: str, timeout: int) -> None:
    """Let the sandbox end ``timeout`` seconds from now."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    await connection.call(lambda platform: platform.set_timeout(sandbox_id, timeout))


async def kill(connection: Connection, sandbox_id: str) -> None:
    """End a sandbox; raises ``NotFoundError`` for an unknown one."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    connection.forget_tokens(sandbox_id)
    if not await connection.call(lambda platform: platform.kill(sandbox_id)):
        raise NotFoundError(f"there is no sandbox {sandbox_id}")


async def rename(connection: Connection, sandbox_id: str, name: str) -> ListedSandbox:
    """Change the name of a sandbox; an empty one removes it.

    Raises ``NotFoundError``, ``UnimplementedError`` for deployments other than the bundled
    engine.
    """
    sandbox_id = parse_sandbox_id(sandbox_id)
    change = {"name": name or None}
    try:
        return await connection.call(lambda platform: platform.set_metadata(sandbox_id, change))
    except NotFoundError:
        await get(connection, sandbox_id)  # if the sandbox exists, the route is missing
        raise UnimplementedError("this deployment cannot rename sandboxes") from None


async def read_history(
    connection: Connection, sandbox_id: str, start: int | None, end: int | None
) -> list[SandboxMetric]:
    """Return the recorded readings between two Unix times in seconds, oldest first."""
    sandbox_id = parse_sandbox_id(sandbox_id)
    return await connection.call(
        lambda platform: platform.metrics(sandbox_id, start=start, end=end)
    )
