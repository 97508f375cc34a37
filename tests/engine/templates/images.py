"""A small container image, made here: busybox and two layers that add, replace and remove."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

from .conftest import archive, entry

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BUSYBOX = Path("/bin/busybox")
LOOK = """
set -e
[ "$GREETING" = hello ]
[ ! -e /srv/gone ]
[ "$(ls /srv/dir)" = new ]
[ "$(cat /real/inside)" = "through a link" ]
[ "$(stat -c %u:%g /srv/owned)" = 33:33 ]
[ "$(id -un)" = user ]
"""
"""What is true in a template that was made of the image where owners are kept."""


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class TinyImage:
    """The parts of the image, and the archives and registry documents that carry them."""

    def __init__(self, form: str = "gzip", *more: tuple[tarfile.TarInfo, bytes]) -> None:
        """``form`` is how the lower layer is compressed; ``more`` goes into the upper one."""
        lower = self._lower()
        upper = archive(
            entry("srv/.wh.gone"),
            entry("srv/dir/.wh..wh..opq"),
            entry("srv/dir/new", content=b"new"),
            entry("through/inside", content=b"through a link"),
            *more,
        )
        packed = zstd.compress(lower) if form == "zstd" else gzip.compress(lower, mtime=0)
        self.layers = [packed, upper]
        self.plain = [lower, upper]
        self.envs = ["PATH=/bin:/usr/bin", "GREETING=hello"]

    @property
    def config(self) -> bytes:
        """The configuration, by which the engine knows an image again."""
        return json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": self.envs},
                "rootfs": {"type": "layers", "diff_ids": [digest(part) for part in self.plain]},
            }
        ).encode()

    @property
    def manifest(self) -> bytes:
        kind = "application/vnd.oci.image"
        layers = []
        for part in self.layers:
            form = {b"\x1f\x8b": "+gzip", b"\x28\xb5": "+zstd"}.get(part[:2], "")
            layers.append(self._describe(f"{kind}.layer.v1.tar{form}", part))
        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{kind}.manifest.v1+json",
                "config": self._describe(f"{kind}.config.v1+json", self.config),
                "layers": layers,
            }
        ).encode()

    def layout(self, *, damage: bool = False) -> bytes:
        """An OCI layout."""
        described = self._describe("application/vnd.oci.image.manifest.v1+json", self.manifest)
        index = json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()
        parts = [self.layers[0], self.layers[1], self.config, self.manifest]
        blobs = []
        for part in parts:
            name = "blobs/" + digest(part).replace(":", "/")
            content = part + b"!" if damage and part is self.layers[1] else part
            blobs.append(entry(name, content=content))
        return archive(entry("index.json", content=index), *blobs)

    def saved(self) -> bytes:
        """What ``docker save`` wrote before it knew the OCI layout."""
        names = ["one/layer.tar", "two/layer.tar"]
        manifest = [{"Config": "config.json", "RepoTags": ["tiny:latest"], "Layers": names}]
        return archive(
            entry("config.json", content=self.config),
            *(entry(name, content=part) for name, part in zip(names, self.plain, strict=True)),
            entry("manifest.json", content=json.dumps(manifest).encode()),
        )

    @staticmethod
    def _describe(kind: str, content: bytes) -> dict[str, object]:
        return {"mediaType": kind, "digest": digest(content), "size": len(content)}

    @staticmethod
    def _lower() -> bytes:
        applets = subprocess.run(
            [BUSYBOX, "--list"], capture_output=True, text=True, check=True
        ).stdout.split()
        links = [
            entry(f"bin/{name}", tarfile.SYMTYPE, linkname="busybox")
            for name in applets
            if name != "busybox"
        ]
        return archive(
            entry("bin", tarfile.DIRTYPE),
            entry("bin/busybox", content=BUSYBOX.read_bytes()),
            *links,
            entry("srv", tarfile.DIRTYPE),
            entry("srv/gone", content=b"x"),
            entry("srv/dir", tarfile.DIRTYPE),
            entry("srv/dir/old", content=b"old"),
            entry("srv/owned", content=b"o", uid=33, gid=33),
            entry("real", tarfile.DIRTYPE),
            entry("tmp", tarfile.DIRTYPE),
            entry("through", tarfile.SYMTYPE, linkname="/real"),
            entry("escape", tarfile.SYMTYPE, linkname="../../../../../tmp"),
        )
