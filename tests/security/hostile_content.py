"""Makes sandboxes of hostile layers and volumes; prints what came of each as one JSON object.

Arguments: an empty directory of the user that runs this. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import detect
from tests.isolation.inside import sandbox

DESCRIPTORS = range(3, 16)


class Content:
    """A place for layers and volumes, and somebody else's directories."""

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        self.victim = home / "victim"
        self.victim.mkdir()
        self.victim.chmod(0o777)  # whoever comes here may write

    def layer(self, name: str, links: dict[str, str]) -> Path:
        """A layer with symbolic links."""
        folder = self.data / "layers" / name
        folder.mkdir(parents=True)
        for link, target in links.items():
            (folder / link).symlink_to(target)
        return folder

    def volume(self, name: str, links: dict[str, str] | None = None) -> Path:
        """A volume with symbolic links."""
        folder = self.data / "volumes" / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        for link, target in (links or {}).items():
            (folder / link).symlink_to(target)
        return folder

    def variants(self) -> dict[str, tuple[dict[str, str], list[tuple[Path, str]]]]:
        """Links of the layer, and the volumes to mount, by name."""
        away = f"/..{self.victim}"
        plain = self.volume("plain")
        found = {
            "through the parent of the root": ({"data": away}, [(plain, "/data/X/deep")]),
            "at a link": ({"data": away}, [(plain, "/data")]),
            "through a relative link": ({"data": f"..{away}"}, [(plain, "/data/made")]),
            "through a link that stays inside": ({"data": "/srv"}, [(plain, "/data/made")]),
            "through a link in a volume": (
                {}, [(self.volume("linked", {"inner": away}), "/mnt"), (plain, "/mnt/inner/x")],
            ),
            "the kernel's views at links: dev": ({"dev": away}, []),
            "the kernel's views at links: proc": ({"proc": away}, []),
            "the kernel's views at links: sys": ({"sys": away}, []),
            "the host's directories at links": ({"usr": away}, []),
            "etc is the parent of the root": ({"etc": away}, []),
        }  # fmt: skip
        for fd in DESCRIPTORS:
            links = {"cg": f"/proc/self/fd/{fd}/cages"}
            found[f"through descriptor {fd}"] = (links, [(plain, "/cg/evil")])
            found[f"etc is descriptor {fd}"] = ({"etc": f"/proc/self/fd/{fd}"}, [])
        return found

    def reached(self) -> list[str]:
        """What should not be there."""
        found = [str(path) for path in self.victim.rglob("*")]
        for name in ("hostname", "hosts", "cages/evil"):
            found += [str(path) for path in self.data.rglob(name) if "stock" not in path.parts]
        return found


async def main(home: Path) -> None:
    content = Content(home)
    report = detect(content.data)
    fence = Fence(content.data, report, report.tier)
    await fence.start()
    seen: dict[str, dict[str, object]] = {}
    for index, (name, (links, volumes)) in enumerate(content.variants().items()):
        layer = content.layer(f"layer{index}", links)
        sandbox_id = f"v{index}"
        try:
            async with sandbox(
                fence, content.data, sandbox_id, layers=(layer,), volumes=tuple(volumes)
            ):
                outcome = "made"
        except SbxError as error:
            outcome = f"{error.code}: {error.message}"
            await fence.tree_operations.remove(content.data / "sandboxes" / sandbox_id)
        left = [where for where in ("cages", "sandboxes") if os.listdir(content.data / where)]
        seen[name] = {"outcome": outcome, "reached": content.reached(), "left": left}
    await fence.stop()
    print(json.dumps({"tier": report.tier, "users": report.users, "seen": seen}))


if __name__ == "__main__":
    signal.alarm(120)
    asyncio.run(main(Path(sys.argv[1])))
