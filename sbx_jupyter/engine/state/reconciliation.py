"""Compares the store with the manifests at start, and decides about what has no row.

A row that is missing is a removal only if the store is known to be complete and to be the one in
which the thing was created. Else the thing is set aside, or the start is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.database import KEYS, key_of
from sbx_jupyter.engine.state.integrity import damage
from sbx_jupyter.engine.state.manifests import LAYERS, Manifests, has_manifest

if TYPE_CHECKING:
    from collections.abc import Container

    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.manifest_file import Found
    from sbx_jupyter.engine.state.quarantine import Quarantine
    from sbx_jupyter.engine.state.store import Store

_KINDS: Final = {"sandboxes": "sandbox", "volumes": "volume", LAYERS: "layer"}


def reconcile(
    store: Store, manifests: Manifests, data_dir: DataDir, quarantine: Quarantine
) -> None:
    """Write missing manifests, and set aside what the store cannot have removed; blocking.

    Sandboxes become ``pending`` in the quarantine, because they may have processes. Raises
    ``DataLossError`` when the store is older than what lies beside it, or is another one's;
    then nothing was changed. Raises ``OSError``.
    """
    found = list(manifests.find())
    _check_age(store, found)
    manifests.remove_drafts()
    quarantine.sweep()
    rows = {(KEYS[type(row)][0], key_of(row)): row for row in store.rows() if has_manifest(row)}
    named = _directories(store, data_dir)
    for each in found:
        manifest = each.manifest
        if manifest is not None and _has_row(each, rows, named):
            manifests.know(manifest)
        elif manifest is not None and store.is_complete:
            each.path.unlink()  # its directory is collected because the store removed its row
        elif each.directory not in named:
            _set_aside(each, data_dir, quarantine)
    for row in rows.values():
        manifests.write(row, store.store_id, store.sequence)


def _check_age(store: Store, found: list[Found]) -> None:
    newer: Counter[str] = Counter()
    for each in found:
        manifest = each.manifest
        if manifest is None:
            continue
        if manifest.store != store.store_id or manifest.sequence > store.sequence:
            newer[each.kind] += 1
    if newer:
        what = ", ".join(f"{count} {kind}" for kind, count in newer.items())
        raise damage(f"{store.path} is older than what lies beside it, or another's: {what}")


def _directories(store: Store, data_dir: DataDir) -> set[str]:
    """The places that rows name, relative to the data directory."""
    named = {f"sandboxes/{data_dir.writable(row.sandbox_id).name}" for row in store.sandboxes}
    named.update(f"volumes/{row.volume_id}" for row in store.volumes)
    for row in (*store.sandboxes, *store.builds, *store.images, *store.steps, *store.merges):
        named.update("/".join(name.split("/")[:2]) for name in row.layers)
    for row in store.merges:
        named.add("/".join(row.key.split("/")[:2]))
    for row in store.steps:
        named.update("/".join(name.split("/")[:2]) for name in row.below)
    for row in (*store.templates, *store.builds, *store.secrets):
        named.add(f"manifests/{KEYS[type(row)][0]}-{key_of(row)}")
    return named


def _has_row(each: Found, rows: Container[tuple[str, str]], named: set[str]) -> bool:
    manifest = each.manifest
    if manifest is None:
        return False
    is_named_layer = each.kind == LAYERS and each.directory in named
    return is_named_layer or (manifest.kind, manifest.key) in rows


def _set_aside(each: Found, data_dir: DataDir, quarantine: Quarantine) -> None:
    reason = each.problem or "the store has no row of it"
    path = data_dir.path / each.directory
    if each.kind == "sandboxes":
        quarantine.pending[path] = f"its manifest is no help: {reason}"
    elif each.kind in _KINDS:
        if path.is_dir():
            quarantine.add(path, _KINDS[each.kind], reason)
        quarantine.add(each.path, "record", reason)
    else:
        quarantine.add(each.path, "record", reason)
