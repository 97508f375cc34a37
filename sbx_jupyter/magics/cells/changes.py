"""Draws the files that were changed as a tree that folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.display.formulas import UNDRAWN
from sbx_jupyter.display.reports import BAD, MUTED
from sbx_jupyter.display.text import escaped, one_line, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.client import Sandbox
    from sbx_jupyter.protocol.diff import Change

MAX_SHOWN: Final = 500
_SIGNS: Final = {"added": "+", "changed": "~", "deleted": "-"}
_GOOD: Final = "color:var(--jp-success-color1,#080)"
_STYLES: Final = {"added": _GOOD, "changed": "", "deleted": BAD}
_LIST: Final = "list-style:none;margin:0;padding-left:1.2em"


@dataclass(slots=True)
class _Folder:
    folders: dict[str, _Folder] = field(default_factory=dict[str, "_Folder"])
    changes: list[tuple[str, Change]] = field(default_factory=list["tuple[str, Change]"])


def change_tree(
    box: Sandbox,
    changes: Sequence[Change],
    *,
    label: str = "",
    truncated: bool = False,
    is_open: bool = False,
) -> tuple[str, str]:
    """The changes as HTML that folds, with links to the files, and as text.

    ``label`` names the sandbox, where several are shown.
    """
    shown = [change for change in changes if not _is_plain_folder(change)]
    root = _Folder()
    for change in shown[:MAX_SHOWN]:
        *parents, name = change.path.strip("/").split("/")
        folder = root
        for parent in parents:
            folder = folder.folders.setdefault(parent, _Folder())
        folder.changes.append((name, change))
    left = len(shown) - MAX_SHOWN
    note = f"{left} more are not listed" if left > 0 else ""
    if truncated:
        note = "there are more than can be compared"
    count = f"{len(shown)} file{'' if len(shown) == 1 else 's'} changed"
    if label:
        count = f"{one_line(label)}: {count}"
    opened = " open" if is_open else ""
    html = (
        f'<details class="sbx-Changes {UNDRAWN}"{opened}><summary>{escaped(count)}</summary>'
        f'{_drawn(root, box)}<div style="{MUTED}">{note}</div></details>'
    )
    lines = [f"{_SIGNS[change.change]} {one_line(change.path)}" for change in shown[:MAX_SHOWN]]
    return html, "\n".join([count, *lines, *([note] if note else [])])


def _is_plain_folder(change: Change) -> bool:
    return change.type == "directory" and change.change != "deleted"


def _drawn(folder: _Folder, box: Sandbox) -> str:
    items = [
        f"<li><details open><summary>{escaped(name)}/</summary>{_drawn(inner, box)}</details></li>"
        for name, inner in sorted(folder.folders.items())
    ]
    items += [_item(name, change, box) for name, change in folder.changes]
    return f'<ul style="{_LIST}">{"".join(items)}</ul>'


def _item(name: str, change: Change, box: Sandbox) -> str:
    shown = escaped(name)
    if change.type == "file" and change.change != "deleted":
        path = escaped(change.path)
        shown = (
            f'<a class="sbx-FileLink" data-sandbox="{escaped(box.sandbox_id)}" '
            f'data-path="{path}" href="#sbx-file">{shown}</a>'
        )
    detail = f' <span style="{MUTED}">{size(change.size)}</span>' if change.size else ""
    style = f' style="{_STYLES[change.change]}"' if _STYLES[change.change] else ""
    return f"<li><span{style}>{_SIGNS[change.change]} {shown}</span>{detail}</li>"
