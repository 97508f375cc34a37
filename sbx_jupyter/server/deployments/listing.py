"""Lists the sandboxes of a deployment for front ends, without their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.protocol.platform import ListedSandbox

if TYPE_CHECKING:
    from sbx_jupyter.client.api.platform import PlatformClient

MAX_LISTED_SANDBOXES: Final = 1000


async def collect(platform: PlatformClient) -> list[ListedSandbox]:
    """The sandboxes that the key may see, at most ``MAX_LISTED_SANDBOXES``.

    Raises ``SbxError``.
    """
    found: list[ListedSandbox] = []
    async for sandbox in platform.list():
        found.append(view_of(sandbox))
        if len(found) >= MAX_LISTED_SANDBOXES:
            break
    return found


def view_of(sandbox: ListedSandbox) -> ListedSandbox:
    """Copy only the fields of a listing: a detail record has the access token as well."""
    names = (field.name for field in msgspec.structs.fields(ListedSandbox))
    return ListedSandbox(**{name: getattr(sandbox, name) for name in names})
