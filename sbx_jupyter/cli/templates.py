"""``jupyter sbx template``: build, import, list and delete templates."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.cli.calls import call_templates
from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.display.text import clean
from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands
    from sbx_jupyter.client.templates.build_context import BuildContext
    from sbx_jupyter.client.templates.templates import TemplateClient
    from sbx_jupyter.protocol.templates import BuildLogEntry, BuildStart

_ARCHIVE: Final = re.compile(r"(\.tar(\.[a-z0-9]+)?|\.tgz|\.tzst|\.oci)$")


def add_to(commands: Commands) -> None:
    """Add ``template`` with its actions."""
    text = "build, import, list and delete templates"
    template = commands.add_parser("template", help=text, description=text)
    actions = template.add_subparsers(required=True, metavar="action")

    build = add_command(actions, "build", "build a template from a Dockerfile", build_template)
    build.add_argument("name", help="name, or name:tag")
    build.add_argument("-f", "--file", type=Path, default=Path("Dockerfile"))
    build.add_argument(
        "--context", type=Path, help="directory of the files for COPY; default: the Dockerfile's"
    )
    build.add_argument("--template", help="build on this template instead of the image of FROM")
    build.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME[=VALUE]", help="a value for ARG"
    )
    build.add_argument(
        "--ready-cmd", metavar="COMMAND", help="command that succeeds once a sandbox is ready"
    )
    build.add_argument("--no-cache", action="store_true", help="run every step, cached or not")
    _add_sizes(build)
    imported = add_command(
        actions, "import", "make a template from the image in a tar", import_image
    )
    imported.add_argument("file", type=Path, help="tar from docker save, or of an OCI layout")
    imported.add_argument("--name", help="name of the template; default: that of the file")
    _add_sizes(imported)
    add_command(actions, "list", "list templates", list_templates)
    delete = add_command(
        actions, "delete", "delete a template with all its builds", delete_template
    )
    delete.add_argument("name")


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cpu", type=int, help="processors of its sandboxes")
    parser.add_argument("--memory", type=int, help="memory of its sandboxes in MiB")


def build_template(options: argparse.Namespace) -> int:
    """Build a template from a Dockerfile and print the log."""
    from sbx_jupyter.client.templates.build_context import BuildContext
    from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
    from sbx_jupyter.protocol.templates import BuildStart

    folder = options.context or options.file.parent
    ignore_file = options.file.with_name(f"{options.file.name}.dockerignore")
    files = BuildContext(folder, ignore_file=ignore_file)
    found = parse_dockerfile(options.file.read_text(), _build_args(options.build_arg), files)
    for text in found.left_out:
        print(f"{text}: left out", file=sys.stderr)
    start = BuildStart(
        from_image=None if options.template else found.image,
        from_template=options.template,
        force=options.no_cache,
        steps=found.steps,
        start_cmd=found.start_command,
        ready_cmd=options.ready_cmd or found.ready_command,
    )
    context = BuildContext(folder, ignore_file=ignore_file, inline=found.inline)
    return _build(options, options.name, start, context)


def _build_args(given: list[str]) -> dict[str, str]:
    """The values of ARG: as given, or those of environment variables with the same names."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals or name in os.environ:
            found[name] = value if equals else os.environ[name]
    return found


def import_image(options: argparse.Namespace) -> int:
    """Import an image, then build a template from it without further steps."""
    from sbx_jupyter.client.templates.build_context import BuildContext
    from sbx_jupyter.protocol.templates import BuildStart

    image = options.name or _name_of(options.file)
    name = image.partition("@")[0].rpartition("/")[2]

    async def work(client: TemplateClient) -> None:
        with options.file.open("rb") as file:
            print(f"Importing {options.file} ({options.file.stat().st_size >> 20} MiB)", flush=True)
            imported = await client.import_image(image, file)
            print(f"Imported {imported.digest}", flush=True)

    call_templates(options, work)
    return _build(options, name, BuildStart(from_image=image), BuildContext(options.file.parent))


def _name_of(file: Path) -> str:
    """The name of a template for a tar: that of the file, in characters that a name can have."""
    name = _ARCHIVE.sub("", file.name.lower())
    return re.sub(r"[^a-z0-9_-]+", "-", name).strip("-")


def _build(options: argparse.Namespace, name: str, start: BuildStart, context: BuildContext) -> int:
    from sbx_jupyter.protocol.templates import TemplateRequest

    request = TemplateRequest(name=name, cpu_count=options.cpu, memory_mb=options.memory)

    def say(entry: BuildLogEntry) -> None:
        is_grave = entry.level in ("warn", "error")
        # Output of steps comes from a sandbox: it may move the cursor or type into this terminal.
        text, _ = clean(entry.message)
        print(text, file=sys.stderr if is_grave else sys.stdout, flush=True)

    async def work(client: TemplateClient) -> str:
        return (await client.build(request, start, context, say)).template_id

    print(f"Built {name} ({call_templates(options, work)})")
    return 0


def list_templates(options: argparse.Namespace) -> int:
    """Print one line per template."""

    async def work(client: TemplateClient) -> list[dict[str, Any]]:
        return await client.templates()

    found = call_templates(options, work)
    if found:
        print(f"{'TEMPLATE':22} {'NAME':24} {'STATUS':8} {'CPU':>3} {'MEMORY':>6} {'BUILDS':>6}")
    else:
        print("none was built; base and code-interpreter-v1 are always there", file=sys.stderr)
    for item in found:
        names = ",".join(item["aliases"])
        print(
            f"{item['templateID']:22} {names:24} {item['buildStatus']:8} {item['cpuCount']:3} "
            f"{item['memoryMB']:6} {item['buildCount']:6}"
        )
    return 0


def delete_template(options: argparse.Namespace) -> int:
    """Delete a template; raises ``NotFoundError``."""

    async def work(client: TemplateClient) -> bool:
        return await client.remove_template(options.name)

    if not call_templates(options, work):
        raise NotFoundError(f"there is no template {options.name}")
    return 0
