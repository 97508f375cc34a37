"""Manifests: one small file beside each stored thing, from which its row can be made again.

A row is first in the store, then in its manifest, then acknowledged. A manifest is written again
only when something changes that a new row would need; it has no fsync, since the store covers a
loss of power. Tokens, environments and network rules are sealed with the key of the secrets.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.database import KEYS, key_of
from sbx_jupyter.engine.state.datadir import WRITABLE
from sbx_jupyter.engine.state.integrity import checksum
from sbx_jupyter.engine.state.keys import SECRETS_KEY, load_or_make_key
from sbx_jupyter.engine.state.manifest_file import DRAFT, Found, Manifest, read, save
from sbx_jupyter.engine.state.rows import (
    BuildRow,
    ImageRow,
    Row,
    SandboxRow,
    SecretRow,
    TemplateRow,
    VolumeRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.engine.state.database import Batch
    from sbx_jupyter.engine.state.datadir import DataDir

_log = logging.getLogger(__name__)

_IN_SANDBOX: Final = "manifest"
_SUFFIX: Final = ".manifest"
_IS_DRAFT: Final = re.compile(rf"({leftovers.UUID.pattern}\.manifest|[a-z]+-[\w-]+)\.new")
_NONCE_BYTES: Final = 12
_LAYER: Final = re.compile(rf"layers/({leftovers.UUID.pattern})(/upper)?")
_TREE: Final = re.compile(
    rf"(layers|volumes)/{leftovers.UUID.pattern}|sandboxes/{WRITABLE.pattern}"
)
LAYERS: Final = "layers"
"""The kind of a layer's manifest, which has no row unless it is of an image."""

_KINDS: Final[dict[type[Row], str]] = {
    kind: KEYS[kind][0]
    for kind in (SandboxRow, TemplateRow, BuildRow, SecretRow, VolumeRow, ImageRow)
}
_SEALED: Final[dict[str, frozenset[str]]] = {
    "sandboxes": frozenset(
        {"access_token", "traffic_token", "envs", "template_envs", "network", "mcp", "iam"}
    ),
    "builds": frozenset({"envs"}),
}
_VOLATILE: Final[dict[str, frozenset[str]]] = {
    "sandboxes": frozenset(
        {"state", "started_at", "end_at", "window_start", "pause_mode", "cage", "boot_id"}
    ),
    "templates": frozenset({"updated_at", "spawn_count", "last_spawned_at"}),
    "builds": frozenset({"updated_at"}),
    "images": frozenset({"used_at"}),
}
"""The fields whose change alone does not write a manifest again."""

_DROPPED: Final[dict[str, frozenset[str]]] = {
    "sandboxes": frozenset({"cage", "boot_id"}),
    "builds": frozenset({"announced"}),
}
"""The fields that are in no manifest."""


class Manifests:
    """Writes and reads the manifests of one data directory."""

    def __init__(self, data_dir: DataDir, key: bytes) -> None:
        """``key`` is that of the secrets, as it is stored."""
        self._data_dir = data_dir
        self._folder = data_dir.path
        self._cipher = AESGCM(hashlib.blake2b(key, digest_size=32, person=b"sbx-manifest").digest())
        self._written: dict[tuple[str, str], bytes] = {}
        self._is_apart = not os.access(data_dir.layers, os.W_OK)
        self._has_apart = os.path.isdir(data_dir.manifests_apart)

    @classmethod
    def open(cls, data_dir: DataDir) -> Manifests:
        """Open the manifests of a data directory; raises ``DataLossError``, ``OSError``."""
        found = cls(data_dir, load_or_make_key(data_dir.path / SECRETS_KEY, Fernet.generate_key))
        found.gather()
        return found

    def gather(self) -> None:
        """Move manifests that were kept apart beside their trees, where this engine can; blocking.

        Raises ``OSError``.
        """
        if self._is_apart:
            return
        for path in self._data_dir.manifests_apart.glob("*:*"):
            directory = path.name.replace(":", "/")
            if path.is_symlink() or not _TREE.fullmatch(directory):
                continue
            tree = self._folder / directory
            if directory.startswith("sandboxes/") and tree.is_dir():
                path.rename(tree / _IN_SANDBOX)
            elif tree.is_dir():
                path.rename(tree.with_name(f"{tree.name}{_SUFFIX}"))

    # Writing

    def follow(self, batch: Batch, store_id: bytes, sequence: int) -> None:
        """Write the manifests of a committed batch, and remove those of removed rows; blocking.

        A failure is logged: the rows are in the store, and the next start writes what is missing.
        """
        try:
            for row in batch.puts:
                self.write(row, store_id, sequence)
            for kind, key in batch.removals:
                self._forget(kind, key)
        except OSError as error:
            _log.warning("a manifest could not be written: %s", error)

    def write(self, row: Row, store_id: bytes, sequence: int) -> None:
        """Write the manifest of a row if it changed, and those of its layers. Raises ``OSError``.

        A row whose directory is not there gets none.
        """
        self._write_layers(row, store_id, sequence)
        if not has_manifest(row):
            return
        kind, key, fields = _KINDS[type(row)], key_of(row), _fields(row)
        digest = _digest(kind, fields)
        if self._written.get((kind, key)) == digest:
            return
        directory, path = self._place(row)
        if self._is_apart and not directory.startswith("manifests/"):
            if not os.path.isdir(f"{self._folder}/{directory}"):
                return
            path = self._apart(directory)
        manifest = self._manifest(kind, key, directory, fields)
        manifest = msgspec.structs.replace(manifest, store=store_id, sequence=sequence)
        with contextlib.suppress(FileNotFoundError):
            save(path, manifest)
            self._written[kind, key] = digest

    def _write_layers(self, row: Row, store_id: bytes, sequence: int) -> None:
        for layer in getattr(row, "layers", ()):
            match = _LAYER.fullmatch(layer)
            if match is None or (LAYERS, match[1]) in self._written:
                continue
            directory = f"{LAYERS}/{match[1]}"
            manifest = Manifest(
                kind=LAYERS, key=match[1], directory=directory, store=store_id, sequence=sequence
            )
            if os.path.isdir(f"{self._folder}/{directory}"):
                beside = f"{self._folder}/{directory}{_SUFFIX}"
                save(self._apart(directory) if self._is_apart else beside, manifest)
                self._written[LAYERS, match[1]] = b""

    def _manifest(self, kind: str, key: str, directory: str, fields: dict[str, Any]) -> Manifest:
        sealed = {name: fields[name] for name in _SEALED.get(kind, ()) if name in fields}
        record = {name: value for name, value in fields.items() if name not in sealed}
        secret = b""
        if sealed:
            nonce = os.urandom(_NONCE_BYTES)
            whole = self._cipher.encrypt(
                nonce, msgspec.json.encode(sealed), f"{kind} {key}".encode()
            )
            secret = nonce + whole
        return Manifest(
            kind=kind,
            key=key,
            directory=directory,
            store=b"",
            sequence=0,
            record=record,
            sealed=secret,
        )

    def _place(self, row: Row) -> tuple[str, str]:
        """The directory that a manifest is of, and its path."""
        match row:
            case SandboxRow():
                directory = self._data_dir.name_of_writable(row.sandbox_id)
                return directory, f"{self._folder}/{directory}/{_IN_SANDBOX}"
            case VolumeRow():
                directory = f"volumes/{row.volume_id}"
            case ImageRow():
                directory = "/".join(row.layers[0].split("/")[:2])
            case _:
                directory = f"manifests/{KEYS[type(row)][0]}-{key_of(row)}"
                return directory, f"{self._folder}/{directory}"
        return directory, f"{self._folder}/{directory}{_SUFFIX}"

    def _apart(self, directory: str) -> str:
        """The path of a manifest that an engine without privileges cannot put beside its tree."""
        folder = self._data_dir.manifests_apart
        folder.mkdir(mode=0o700, exist_ok=True)
        self._has_apart = True
        return f"{folder}/{directory.replace('/', ':')}"

    def _remove(self, path: str, directory: str) -> None:
        """Remove the manifest of a directory, where ``path`` says and where it may be apart."""
        if self._has_apart:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._data_dir.manifests_apart}/{directory.replace('/', ':')}")
        if not self._is_apart:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def know(self, manifest: Manifest) -> None:
        """Remember what a manifest on the disk says, so that it is not written again as it is."""
        if manifest.kind == LAYERS or manifest.directory.startswith(f"{LAYERS}/"):
            self._written[LAYERS, manifest.directory.removeprefix(f"{LAYERS}/")] = b""
        sealed = self.unseal(manifest)
        if manifest.record is not None and sealed is not None:
            fields = manifest.record | sealed
            self._written[manifest.kind, manifest.key] = _digest(manifest.kind, fields)

    # Removing

    def _forget(self, kind: type[Row], key: str) -> None:
        name = _KINDS.get(kind)
        if name is None or self._written.pop((name, key), None) is None:
            return
        if kind is VolumeRow:
            self._remove(f"{self._folder}/volumes/{key}{_SUFFIX}", f"volumes/{key}")
        elif kind in (TemplateRow, BuildRow, SecretRow):
            (self._folder / "manifests" / f"{name}-{key}").unlink(missing_ok=True)

    def forget_layer(self, name: str) -> None:
        """Remove the manifest of a layer, before the layer is removed. Raises ``OSError``."""
        self._written.pop((LAYERS, name.removeprefix("layers/")), None)
        self._remove(f"{self._folder}/{name}{_SUFFIX}", name)

    def forget_sandbox(self, sandbox_id: str) -> None:
        """Remove the manifest of a sandbox, before its layer is removed. Raises ``OSError``."""
        self._written.pop(("sandboxes", sandbox_id), None)
        directory = self._data_dir.name_of_writable(sandbox_id)
        self._remove(f"{self._folder}/{directory}/{_IN_SANDBOX}", directory)

    def remove_drafts(self) -> None:
        """Remove unfinished drafts of a killed engine; the manifests themselves are whole."""
        for folder in ("manifests", "volumes", LAYERS):
            for draft in (self._folder / folder).glob(f"*{DRAFT}"):
                if draft.is_file() and _IS_DRAFT.fullmatch(draft.name):
                    draft.unlink()

    # Reading

    def find(self) -> Iterator[Found]:
        """All manifests of the data directory, and what is in their place; blocking."""
        for name in self._data_dir.sandbox_directories():
            path = self._folder / "sandboxes" / name / _IN_SANDBOX
            if os.path.lexists(path):
                yield read(path, "sandboxes", f"sandboxes/{name}")
        for kind in ("volumes", LAYERS):
            for path in sorted((self._folder / kind).glob(f"*{_SUFFIX}")):
                yield read(path, kind, f"{kind}/{path.name.removesuffix(_SUFFIX)}")
        for path in sorted(self._data_dir.manifests_apart.glob("*:*")):
            directory = path.name.replace(":", "/")
            yield read(path, directory.partition("/")[0], directory)
        for path in sorted((self._folder / "manifests").glob("*-*")):
            if _IS_DRAFT.fullmatch(path.name):
                continue
            yield read(path, path.name.partition("-")[0], f"manifests/{path.name}")

    def unseal(self, manifest: Manifest) -> dict[str, Any] | None:
        """The sealed fields of a manifest; ``None`` when another key sealed them."""
        if not manifest.sealed:
            return {}
        nonce, secret = manifest.sealed[:_NONCE_BYTES], manifest.sealed[_NONCE_BYTES:]
        try:
            plain = self._cipher.decrypt(nonce, secret, f"{manifest.kind} {manifest.key}".encode())
        except (InvalidTag, ValueError):
            return None
        return msgspec.json.decode(plain)


def has_manifest(row: Row) -> bool:
    """Whether a row is one that gets a manifest."""
    return type(row) in _KINDS and not (isinstance(row, BuildRow) and row.status != "ready")


def _digest(kind: str, fields: dict[str, Any]) -> bytes:
    """A checksum of the fields whose change writes a manifest again."""
    volatile = _VOLATILE.get(kind, frozenset())
    stable = {name: fields[name] for name in sorted(fields) if name not in volatile}
    return checksum(msgspec.json.encode(stable))


def _fields(row: Row) -> dict[str, Any]:
    """The fields of a row as they are stored, without those that no manifest has."""
    fields: dict[str, Any] = msgspec.to_builtins(row)
    for name in _DROPPED.get(KEYS[type(row)][0], ()):
        fields.pop(name, None)
    return fields
