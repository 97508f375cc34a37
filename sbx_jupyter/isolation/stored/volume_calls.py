"""Runs calls on the content of a volume that come as text, for helpers of the engine.

Standard library only, for the zygote.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.stored.volume_content import Ownership

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.isolation.stored.volume_content import VolumeContent


def as_text(**fields: Any) -> Any:
    """The record of an entry as JSON has it."""
    return {
        name: value.isoformat() if isinstance(value, dt.datetime) else value
        for name, value in fields.items()
    }


def run(content: VolumeContent, call: Mapping[str, Any], given: list[int]) -> dict[str, Any]:
    """Do what a message of ``privileged/messages.py`` asks; descriptors go to ``given``.

    Raises as ``VolumeContent`` does.
    """
    path = call["path"]
    match call["op"]:
        case "stat_entry":
            return {"entry": content.stat(path)}
        case "list_entries":
            return {"entries": content.list_dir(path, call["depth"])}
        case "change_entry":
            return {"entry": content.change(path, _ownership(call))}
        case "make_folder":
            return {"entry": content.make_dir(path, _ownership(call), force=call["force"])}
        case "open_read":
            descriptor, size = content.open_read(path)
            given.append(descriptor)
            return {"size": size}
        case "open_write":
            draft = content.open_write(path, _ownership(call), force=call["force"])
            given.append(draft.descriptor)
            return {"draft": draft.name}
        case _:
            _finish(content, call)
            return {}


def _finish(content: VolumeContent, call: Mapping[str, Any]) -> None:
    match call["op"]:
        case "remove_entry":
            content.remove(call["path"])
        case "finish_write":
            content.finish_write(call["path"], call["draft"], force=call["force"])
        case "drop_write":
            content.drop_write(call["path"], call["draft"])
        case operation:
            raise InvalidArgumentError(f"{operation!r} is no message for a volume")


def _ownership(call: Mapping[str, Any]) -> Ownership:
    return Ownership(uid=call["uid"], gid=call["gid"], mode=call["mode"])
