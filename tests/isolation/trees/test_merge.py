"""Layers that are put together show what an overlay of them shows, also on what lies below."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.isolation.trees.merge import Merge
from sbx_jupyter.isolation.trees.mirror import Mirror
from sbx_jupyter.isolation.zygote.progress import Cancelled, Progress
from tests.isolation.trees.test_mirror import described

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays: root only")

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def place() -> Iterator[Path]:
    """A place whose file system an overlay can be made of."""
    path = Path(tempfile.mkdtemp(prefix="sbx-merge-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


def mount(place: Path, layers: list[Path], upper: Path | None) -> Path:
    target = Path(tempfile.mkdtemp(prefix="mount-", dir=place))
    lower = ":".join(map(str, layers))
    options = f"lowerdir={lower},userxattr"
    if upper is not None:
        work = Path(tempfile.mkdtemp(prefix="work-", dir=place))
        options += f",upperdir={upper},workdir={work}"
    subprocess.run(
        ["mount", "-t", "overlay", "-o", options, "overlay", target],
        check=True,
        # The newer system call takes no option of more than 256 bytes.
        env=os.environ | {"LIBMOUNT_FORCE_MOUNT2": "always"},
    )
    return target


def change(root: Path, chance: random.Random) -> None:
    """One of the things that programs do to a tree."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
    path = chance.choice(folders) / chance.choice(NAMES)
    what = chance.randrange(8)
    if what <= 1 and not path.exists() and not path.is_symlink():
        path.mkdir()
    elif what == 2 and path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        if chance.random() < 0.7:
            path.mkdir()  # the kernel makes it opaque
    elif what == 3 and (path.is_file() or path.is_symlink()):
        path.unlink()
    elif what == 4 and not path.exists() and not path.is_symlink():
        path.symlink_to(chance.choice(NAMES))
    elif what == 5 and path.is_file() and not path.is_symlink():
        other = chance.choice(folders) / chance.choice(NAMES)
        if not other.exists() and not other.is_symlink() and other.parent.is_dir():
            os.link(path, other)
    elif what == 6 and path.is_file() and not path.is_symlink():
        path.chmod(chance.choice((0o600, 0o644, 0o4755)))
        os.chown(path, chance.randrange(3), chance.randrange(3))
    elif not path.is_dir() and not path.is_symlink():
        path.write_text(str(chance.random()))


def shown(place: Path, layers: list[Path]) -> dict[str, tuple]:
    """What an overlay of the layers shows, but the number of names, which merging may change
    where a file has names in several layers."""
    target = mount(place, [*layers, place / "empty"], None)
    try:
        found = described(target)
    finally:
        subprocess.run(["umount", target], check=True)
    return {name: (*entry[:4], entry[6], entry[7]) for name, entry in found.items()}


@pytest.mark.parametrize("seed", range(12))
def test_merged_layers_show_the_same_wherever_they_lie(place: Path, seed: int) -> None:
    chance = random.Random(seed)
    (place / "empty").mkdir()
    layers: list[Path] = []
    for number in range(8):
        upper = place / f"l{number}"
        upper.mkdir()
        target = mount(place, layers or [place / "empty"], upper)
        for _ in range(25):
            change(target, chance)
        subprocess.run(["umount", target], check=True)
        layers.insert(0, upper)
    wanted = shown(place, layers)
    start = chance.randrange(4)
    end = chance.randrange(start + 2, 9)

    Merge([str(layer) for layer in layers[start:end]], str(place / "merged")).run()

    assert shown(place, [*layers[:start], place / "merged", *layers[end:]]) == wanted
    assert len(wanted) > 3


def test_a_whiteout_and_an_opaque_folder_still_hide_what_lies_below(place: Path) -> None:
    top, middle = place / "top", place / "middle"
    for layer in (top, middle):
        (layer / "d").mkdir(parents=True)
    os.mknod(top / "gone", stat.S_IFCHR, 0)
    (middle / "gone").write_text("hidden")
    os.setxattr(middle / "d", "user.overlay.opaque", b"y")
    (top / "d" / "new").write_text("new")
    (middle / "over").write_text("a file")
    (top / "over").mkdir()

    Merge([str(top), str(middle)], str(place / "merged")).run()

    assert stat.S_ISCHR((place / "merged" / "gone").lstat().st_mode)
    assert os.getxattr(place / "merged" / "d", "user.overlay.opaque") == b"y"
    assert os.getxattr(place / "merged" / "over", "user.overlay.opaque") == b"y"
    assert (place / "merged" / "d" / "new").read_text() == "new"


@pytest.mark.parametrize("kind", ["mirror", "merge"])
def test_bytes_are_counted_and_a_cancelled_copy_ends(place: Path, kind: str) -> None:
    source = place / "source"
    source.mkdir()
    for number in range(20):
        (source / str(number)).write_bytes(bytes(100_000))

    def copy(target: str, progress: Progress) -> None:
        if kind == "mirror":
            Mirror(str(source), target, still=False, progress=progress).run()
        else:
            Merge([str(source)], target, progress=progress).run()

    progress = Progress()
    copy(str(place / "one"), progress)
    assert progress.done == sum(
        path.lstat().st_blocks * 512 for path in (source, *source.iterdir())
    )
    progress.close()
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        copy(str(place / "two"), progress)
    assert len(os.listdir(place / "two")) <= 1
    progress.close()
