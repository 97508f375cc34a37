"""The blocks of code of the pages: commands and settings that there are, and Python that is run."""

from __future__ import annotations

import ast
import re
import shlex

import pytest

from sbx_jupyter.cli.main import command_parser
from sbx_jupyter.server.extension import SbxExtension
from sbx_jupyter.service.app import SbxEngine
from tests.demo.test_pages import RUN
from tests.docs.code_blocks import Block, blocks

COMMAND = re.compile(r"^(?:\$ )?jupyter sbx ((?:[^#|>&;)\n\\]|\\\n)*)", re.MULTILINE)
OWNERS = {"SbxExtension": SbxExtension, "SbxEngine": SbxEngine}
SETTING = re.compile(r"^c\.(SbxExtension|SbxEngine)\.(\w+)", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    found = [*blocks(""), *blocks("console")]
    return [
        (f"{block.page}:{block.line}", " ".join(command.replace("\\\n", " ").split()))
        for block in found
        for command in COMMAND.findall(block.text)
    ]


@pytest.mark.parametrize(("where", "command"), commands())
def test_a_command_of_a_page_is_understood(where: str, command: str) -> None:
    words = [word.strip("[]") for word in shlex.split(command)]

    if words[0] != "engine":
        command_parser().parse_args(words)
        return
    for option in words[1:]:
        name = option.removeprefix("--").partition("=")[0]
        trait = SbxEngine.aliases.get(name, name).removeprefix("SbxEngine.")
        assert not option.startswith("--") or trait in SbxEngine.class_traits(config=True), option


@pytest.mark.parametrize(
    "block", list(blocks("python")), ids=lambda block: f"{block.page}:{block.line}"
)
def test_a_block_of_python_is_run_or_says_why_not(block: Block) -> None:
    for owner, name in SETTING.findall(block.text):
        assert name in OWNERS[owner].class_traits(config=True), f"c.{owner}.{name}"
    ast.parse(block.text)
    assert block.is_marked or block.is_of_settings or block.page in RUN


def test_commands_are_found() -> None:
    assert len(commands()) >= 8
