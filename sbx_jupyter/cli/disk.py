"""``jupyter sbx disk``, ``prune`` and ``storage``: the engine's use of disk space."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.cli.calls import call_platform, running_engine
from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.cli.sizes import parse_size, show_size
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.locations import default_data_dir

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.protocol.disk import DiskUse, PruneAnswer

_KINDS: Final = ("steps", "images", "uploads", "layers", "quarantine")
_WORDS: Final = {
    "steps": "cached build steps",
    "images": "pulled images and their parts",
    "uploads": "uploaded files of builds",
    "layers": "unused layers",
    "quarantine": "things set aside, in quarantine",
}


def add_to(commands: Commands) -> None:
    """Add the commands about disk space."""

    disk = add_command(commands, "disk", "list the disk use of everything stored", show_disk)
    disk.add_argument("--json", action="store_true", help="print JSON")
    prune = add_command(commands, "prune", "remove cached files that nothing uses", prune_disk)
    prune.add_argument(
        "kind", nargs="*", help=f"{', '.join(_KINDS)}; all but the quarantine if none is given"
    )
    prune.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    prune.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    text = "make a separate file system for the engine"
    storage = commands.add_parser("storage", help=text, description=text)
    actions = storage.add_subparsers(required=True, metavar="action")
    text = (
        "make an image file with a file system that shares data between files, move the data "
        "directory into it, and mount it there; asked again, go on or clean up where it was killed"
    )
    create = add_command(actions, "create", text, create_storage)
    create.add_argument(
        "--size", type=parse_size, required=True, help="maximum size, for example 50G"
    )
    create.add_argument(
        "--path", type=Path, help="the image file; default: beside the data directory"
    )
    create.add_argument(
        "--filesystem", choices=("btrfs", "xfs"), default="btrfs", help="default: btrfs"
    )
    create.add_argument("--no-mount", action="store_true", help="only print how to mount it")


def show_disk(options: argparse.Namespace) -> int:
    """Print the disk use of templates, sandboxes, volumes and caches."""
    import msgspec

    async def work(platform: PlatformClient) -> DiskUse:
        return await platform.disk_use(max_age=0)

    found = call_platform(running_engine(options), work)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return 0
    print(f"{'':10} {'NAME':36} {'OWN':>10} {'SHARED':>10} {'LAYERS':>6}")
    for template in found.templates:
        if template.kind != "stock":
            name = template.names[0] if template.names else template.template_id
            row = (template.own_bytes, template.shared_bytes, template.layers)
            _print_line(template.kind, name, *row)
    for sandbox in found.sandboxes:
        row = (sandbox.own_bytes, sandbox.shared_bytes, sandbox.layers)
        _print_line(sandbox.state, sandbox.sandbox_id, *row)
    for volume in found.volumes:
        _print_line("volume", volume.name, volume.own_bytes)
    for name, cache in (
        ("cached build steps", found.step_cache),
        ("unpacked images", found.images),
        ("parts of images", found.blobs),
        ("uploads of builds", found.uploads),
    ):
        _print_line("cache", f"{name} ({cache.count})", cache.own_bytes, cache.shared_bytes)
    for each in found.quarantine:
        _print_line("quarantine", f"{each.kind} {each.name}", each.own_bytes)
        print(f"{'':10} since {each.since:%Y-%m-%d %H:%M} in {each.path}: {each.reason}")
    _print_line("engine", "stock root file system", found.stock_bytes)
    _print_line("engine", "database, logs, metrics", found.other_bytes)
    free = f"{show_size(found.free_bytes)} of {show_size(found.disk_bytes)} free"
    print(f"all together {show_size(found.total_bytes)}; {free}")
    return 0


def _print_line(
    kind: str, name: str, own: int, shared: int | None = None, layers: int | None = None
) -> None:
    print(
        f"{kind:10} {name[:36]:36} {show_size(own):>10} "
        f"{'' if shared is None else show_size(shared):>10} {'' if layers is None else layers:>6}"
    )


def prune_disk(options: argparse.Namespace) -> int:
    """Print what would be removed, ask, and remove it; returns 1 when the answer is no.

    Raises ``InvalidArgumentError`` for an unknown kind, or without a terminal to ask on.
    """
    for kind in options.kind:
        if kind not in _KINDS:
            raise InvalidArgumentError(f"'{kind}' is none of {', '.join(_KINDS)}")
    engine = running_engine(options)

    def ask(*, dry_run: bool) -> PruneAnswer:
        async def work(platform: PlatformClient) -> PruneAnswer:
            return await platform.prune(kinds=options.kind, dry_run=dry_run)

        return call_platform(engine, work)

    would = ask(dry_run=True)
    for each in would.pruned:
        print(f"{each.count:6} {_WORDS[each.kind]}: {show_size(each.freed_bytes)}")
    if options.dry_run or not any(each.count for each in would.pruned):
        return 0
    if not options.yes and not _is_agreed(f"Remove them and free {show_size(would.freed_bytes)}?"):
        return 1
    print(f"Freed {show_size(ask(dry_run=False).freed_bytes)}")
    return 0


def _is_agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise InvalidArgumentError("cannot ask without a terminal: use --yes or --dry-run")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def create_storage(options: argparse.Namespace) -> int:
    """Make the image, and have the data directory in it; others than root get the commands."""
    from sbx_jupyter.cli import storage, storage_move
    from sbx_jupyter.engine.state.mount_point import check_mounted

    data_dir = (options.data_dir or default_data_dir()).expanduser().absolute()
    path = options.path or data_dir.with_name(f"{data_dir.name}.img")
    plan = storage.Plan(
        image=path.expanduser().absolute(),
        data_dir=data_dir,
        size=options.size,
        kind=options.filesystem,
    )
    if storage.may_mount() and not options.no_mount:
        kept = storage_move.move(plan, lambda line: print(line, flush=True))
        print(f"Mounted on {plan.data_dir}: {plan.image}, grows to {show_size(plan.size)}")
        if kept is not None:
            print("The data from before is kept. When everything works, remove it:")
            print(f"  rm -r {shlex.quote(str(kept))}")
    else:
        if data_dir.is_dir():
            check_mounted(data_dir)
        storage.make_image(plan)
        print(f"Made {plan.image}: {plan.kind}, grows to {show_size(plan.size)} as it fills")
        print("Mount it as root, once:")
        print(f"  {storage.mount_command(plan)}")
    print("For every start of the machine, in /etc/fstab:")
    print(f"  {storage.fstab_line(plan)}")
    return 0
