"""The requests to a helper, each with the names and numbers that it takes and no paths.

An engine that was taken over may send anything, so every field is bounded and every name has a
strict pattern. Descriptors go beside the message; the framing is that of ``protocol/agent.py``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

_ID: Final = "i[a-z0-9]{20}"
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_WRITABLE: Final = rf"sandboxes/{_ID}(?:\.[0-9a-f]{{32}})?"
_LAYER: Final = f"layers/{_UUID}"
_ASIDE: Final = (
    "quarantine/[0-9]{8}T[0-9]{6}Z-(?:sandbox|volume|layer|record|store)-"
    r"[A-Za-z0-9_:-]{1,100}(?:\.[0-9]{1,3})?"
)
_TREE: Final = f"{_WRITABLE}(?:/upper)?|{_LAYER}(?:/upper)?|volumes/{_UUID}|{_ASIDE}|layers|stock"

_MAX_LAYERS: Final = 512
_MAX_TREES: Final = 10_000
_MAX_RANGES: Final = 1365
"""More than one packet filter can hold."""

_MAX_ID: Final = 2**31 - 1

SandboxId = Annotated[str, Meta(pattern=rf"\A{_ID}\Z")]
Uuid = Annotated[str, Meta(pattern=rf"\A{_UUID}\Z")]
WritableName = Annotated[str, Meta(pattern=rf"\A{_WRITABLE}\Z")]
NewLayer = Annotated[str, Meta(pattern=rf"\A{_LAYER}\Z")]
LayerName = Annotated[str, Meta(pattern=rf"\A{_LAYER}(?:/upper)?\Z")]
TreeName = Annotated[str, Meta(pattern=rf"\A(?:{_TREE})\Z")]
Removable = Annotated[str, Meta(pattern=rf"\A(?:{_WRITABLE}|{_LAYER}|{_ASIDE})\Z")]
Unnamed = Annotated[str, Meta(pattern=rf"\A(?:{_WRITABLE}|{_LAYER}|volumes/{_UUID})\Z")]
BlobName = Annotated[str, Meta(pattern=r"\A[a-z0-9]{1,16}-[0-9a-f]{32,128}\Z")]
InnerPath = Annotated[str, Meta(min_length=1, max_length=4096)]
Amount = Annotated[int, Meta(ge=0, le=1 << 50)]
Pid = Annotated[int, Meta(ge=1, le=1 << 22)]
OwnerId = Annotated[int, Meta(ge=-1, le=_MAX_ID)]
Address = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Ranges = Annotated[list[tuple[Address, Address]], Meta(max_length=_MAX_RANGES)]
Stack = Annotated[list[TreeName], Meta(max_length=_MAX_LAYERS)]


class Stacks(NamedTuple):
    """Two stacks of layers to compare, by name and topmost first; see ``Comparison``."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    common: tuple[str, ...]


class Message(msgspec.Struct, tag_field="op", forbid_unknown_fields=True):
    """Base of all messages."""


class Describe(Message, tag="describe"):
    """Asks how sandboxes are isolated; answered once the fence is ready."""


class Create(Message, tag="create"):
    """Make a sandbox whose agent accepts on the socket that comes along; gives its pidfd."""

    sandbox_id: SandboxId
    writable: WritableName
    layers: Annotated[list[LayerName], Meta(max_length=_MAX_LAYERS)]
    on_stock: bool
    memory_mb: Amount
    cpu_count: Amount
    processes: Amount
    disk_mb: Amount
    open_files: Amount
    volumes: Annotated[list[tuple[Uuid, InnerPath]], Meta(max_length=256)]


class Adopt(Message, tag="adopt"):
    """Find a sandbox that an earlier engine made; gives its pidfd while it lives."""

    sandbox_id: SandboxId


class Kill(Message, tag="kill"):
    """End all processes of a sandbox."""

    sandbox_id: SandboxId


class Freeze(Message, tag="freeze"):
    """Stop the processes of a sandbox, or let them go on."""

    sandbox_id: SandboxId
    frozen: bool


class EndProcess(Message, tag="end_process"):
    """Kill one process of a sandbox; a process of anything else is left alone."""

    sandbox_id: SandboxId
    pid: Pid


class OpenFiles(Message, tag="open_files"):
    """Count what the processes of a sandbox hold open."""

    sandbox_id: SandboxId


class Resident(Message, tag="resident"):
    """Measure the memory of each process of a sandbox, shared pages in parts."""

    sandbox_id: SandboxId


class Collect(Message, tag="collect"):
    """Kill the sandboxes of this data directory that are not among these."""

    known: Annotated[list[SandboxId], Meta(max_length=100_000)]


class Measure(Message, tag="measure"):
    """Measure trees."""

    trees: Annotated[list[TreeName], Meta(max_length=_MAX_TREES)]


class Remove(Message, tag="remove"):
    """Remove a layer, a writable layer or what was set aside."""

    tree: Removable


class Copy(Message, tag="copy"):
    """Copy what a sandbox wrote into a layer.

    The descriptors of its copied directories and its progress may come along, in this order.
    """

    source: TreeName
    target: NewLayer
    since_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    still: bool


class Merge(Message, tag="merge"):
    """Merge layers into a new one."""

    sources: Annotated[list[LayerName], Meta(min_length=1, max_length=_MAX_LAYERS)]
    target: NewLayer


class Unpack(Message, tag="unpack"):
    """Make a layer of archives, the lowest first, in the folder whose descriptor comes along."""

    target: NewLayer
    names: Annotated[list[BlobName], Meta(min_length=1, max_length=_MAX_LAYERS)]


class Seal(Message, tag="seal"):
    """Rename what a sandbox wrote to a layer."""

    writable: WritableName
    layer: NewLayer


class TakeSnapshot(Message, tag="take_snapshot"):
    """Make a layer of the subvolume of a sandbox."""

    writable: WritableName
    layer: NewLayer


class Sync(Message, tag="sync"):
    """Sync the file system of a tree."""

    tree: TreeName


class SetAside(Message, tag="set_aside"):
    """Move a tree that no row names to the quarantine."""

    tree: Unnamed
    kind: Literal["sandbox", "volume", "layer"]
    reason: Annotated[str, Meta(max_length=2000)]


class MakeVolume(Message, tag="make_volume"):
    """Make a volume."""

    volume_id: Uuid
    limit: Amount


class RetireVolume(Message, tag="retire_volume"):
    """Move a volume to those that are to be removed."""

    volume_id: Uuid


class RemoveRetired(Message, tag="remove_retired"):
    """Remove a retired volume."""

    volume_id: Uuid


class OfVolume(Message):
    """Base of the requests about one entry of a volume."""

    volume_id: Uuid
    path: InnerPath


class StatEntry(OfVolume, tag="stat_entry"):
    """Describe an entry."""


class ChangeEntry(OfVolume, tag="change_entry"):
    """Set owner and mode."""

    uid: OwnerId | None
    gid: OwnerId | None
    mode: OwnerId | None


class RemoveEntry(OfVolume, tag="remove_entry"):
    """Remove an entry with all below it."""


class ListEntries(OfVolume, tag="list_entries"):
    """List a directory; the answer is in a memory file that comes along."""

    depth: Annotated[int, Meta(ge=-1, le=1000)]


class MakeFolder(OfVolume, tag="make_folder"):
    """Make a directory."""

    uid: OwnerId | None
    gid: OwnerId | None
    mode: OwnerId | None
    force: bool


class OpenRead(OfVolume, tag="open_read"):
    """Open a file for reading; gives its descriptor."""


class OpenWrite(OfVolume, tag="open_write"):
    """Make a draft of a file; gives its descriptor and name."""

    uid: OwnerId | None
    gid: OwnerId | None
    mode: OwnerId | None
    force: bool


class FinishWrite(OfVolume, tag="finish_write"):
    """Give a draft the name of the file."""

    draft: Annotated[str, Meta(max_length=255)]
    force: bool


class DropWrite(OfVolume, tag="drop_write"):
    """Remove a draft."""

    draft: Annotated[str, Meta(max_length=255)]


class Compare(Message, tag="compare"):
    """Compare two stacks; the answer is in a memory file that comes along."""

    ours: Stack
    theirs: Stack
    common: Stack
    on_stock: bool


class Archive(Message, tag="archive"):
    """Write the differences of two stacks as a tar; gives the reading end of its pipe."""

    ours: Stack
    theirs: Stack
    common: Stack
    on_stock: bool


class OfNetwork(Message):
    """Base of the requests about the network of one sandbox, each with a socket of it."""

    sandbox_id: SandboxId


class ConnectTap(OfNetwork, tag="connect_tap"):
    """Connect the interface of a sandbox; gives the pidfd of the process that serves it."""

    ranges: Ranges
    resolves: bool


class WidenTap(OfNetwork, tag="widen_tap"):
    """Let a connected sandbox reach more."""

    ranges: Ranges
    resolves: bool


class DisconnectTap(OfNetwork, tag="disconnect_tap"):
    """Disconnect a sandbox, which may have ended."""


class AdoptTap(OfNetwork, tag="adopt_tap"):
    """Keep a connection with these rules, and end one with others; no socket comes along."""

    ranges: Ranges
    resolves: bool


class CollectTaps(Message, tag="collect_taps"):
    """Disconnect the sandboxes that are not among these."""

    known: Annotated[list[SandboxId], Meta(max_length=100_000)]


class Publish(Message, tag="publish"):
    """Write the connection file, where the engine may not write it itself."""

    content: Annotated[str, Meta(max_length=65536)]


class Unpublish(Message, tag="unpublish"):
    """Remove the connection file."""


class Stop(Message, tag="stop"):
    """End the zygote and this helper; sandboxes go on."""


Any_ = (
    Describe | Create | Adopt | Kill | Freeze | EndProcess | OpenFiles | Resident | Collect
    | Measure | Remove | Copy | Merge | Unpack | Seal | TakeSnapshot | Sync
    | SetAside | MakeVolume | RetireVolume | RemoveRetired | StatEntry | ChangeEntry | RemoveEntry
    | ListEntries | MakeFolder | OpenRead | OpenWrite | FinishWrite | DropWrite | Compare | Archive
    | ConnectTap | WidenTap | DisconnectTap | AdoptTap | CollectTaps | Publish | Unpublish | Stop
)  # fmt: skip
"""Every message."""
