"""Turns a Dockerfile into the steps of a template build (interface 7.5).

Every instruction is converted, listed as ignored (it has no meaning for a template), or rejected
with the number of its line; ``docs/templates.md`` has the list.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.dockerfile.text import (
    DockerfileError,
    Instruction,
    is_heredoc_mark,
    read,
    split,
)
from sbx_jupyter.protocol.dockerfile.variables import Variables
from sbx_jupyter.protocol.templates import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_IGNORED: Final = {
    "EXPOSE": "every port of a sandbox can be reached",
    "LABEL": "templates have no labels",
    "MAINTAINER": "templates have no labels",
    "STOPSIGNAL": "sandboxes are ended at once",
}
_ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}.get(
    platform.machine(), platform.machine()
)
_PLATFORMS: Final = {
    f"{side}{name}": value
    for side in ("BUILD", "TARGET")
    for name, value in (
        ("OS", "linux"), ("ARCH", _ARCHITECTURE), ("PLATFORM", f"linux/{_ARCHITECTURE}"),
        ("VARIANT", ""),
    )
}  # fmt: skip
_FLAG: Final = re.compile(r"--([a-z-]+)(?:=(\S*))?(?:\s+|\Z)")
_GLOB: Final = re.compile(r"[*?\[]")
_MODE: Final = re.compile(r"[0-7]{3,4}\Z")
_COPY_FLAGS: Final = frozenset({"chown", "chmod", "link"})
_CHECK_FLAGS: Final = frozenset(
    {"interval", "timeout", "start-period", "start-interval", "retries"}
)
_SHELL: Final = ("/bin/sh", "-c")
INLINE: Final = ".sbx-inline/"
"""The folder of the files whose content is in the Dockerfile."""


class Files(Protocol):
    """The files of the build context that a Dockerfile can copy."""

    def matches(self, source: str) -> list[tuple[str, str]]:
        """The names that match a source or pattern, each as ``file``, ``archive`` or ``directory``.

        Raises ``InvalidArgumentError`` when nothing matches.
        """
        ...


@dataclass(slots=True)
class DockerfileSteps:
    """A Dockerfile in the form of a build's parameters."""

    image: str = ""
    steps: list[Step] = field(default_factory=list[Step])
    start_command: str | None = None
    ready_command: str | None = None
    """The command of HEALTHCHECK."""

    inline: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Files for COPY whose content is in the Dockerfile, by their source."""

    left_out: list[str] = field(default_factory=list[str])
    """Ignored instructions, each with its line and the reason."""


def parse_dockerfile(
    text: str, build_args: Mapping[str, str] | None = None, files: Files | None = None
) -> DockerfileSteps:
    """Parse a Dockerfile of one stage; raises ``InvalidArgumentError``, which names the line."""
    document = read(text)
    parser = _Parser(build_args or {}, files)
    parser.variables.escape = document.escape
    for instruction in document.instructions:
        try:
            parser.take(instruction)
        except DockerfileError:
            raise
        except InvalidArgumentError as error:
            raise DockerfileError(instruction.line, error.message) from None
    return parser.finish(build_args or {})


class _Parser:
    def __init__(self, build_args: Mapping[str, str], files: Files | None) -> None:
        self.variables = Variables(build_args, _PLATFORMS)
        self._files = files
        self._found = DockerfileSteps()
        self._shell: Sequence[str] | None = None
        self._entrypoint: str | None = None
        self._takes_arguments = True
        self._command: str | None = None
        self._arguments: str | None = None
        self._has_user = False
        self._has_workdir = False
        self._now = Instruction(0, "", "")
        self._handlers: dict[str, Callable[[str], None]] = {
            "FROM": self._from,
            "RUN": self._run,
            "COPY": self._copy,
            "ADD": self._copy,
            "ENV": self._env,
            "ARG": self._arg,
            "WORKDIR": self._workdir,
            "USER": self._user,
            "SHELL": self._set_shell,
            "VOLUME": self._volume,
            "CMD": self._cmd,
            "ENTRYPOINT": self._set_entrypoint,
            "HEALTHCHECK": self._healthcheck,
            "ONBUILD": self._onbuild,
        }

    def take(self, instruction: Instruction) -> None:
        self._now = instruction
        word = instruction.word
        if word not in self._handlers and word not in _IGNORED:
            raise InvalidArgumentError(f"unknown instruction {word[:50]}")
        if word not in ("FROM", "ARG") and not self._found.image:
            raise InvalidArgumentError(f"{word} before FROM")
        if not instruction.rest:
            raise InvalidArgumentError(f"{word} says nothing")
        if word in _IGNORED:
            self._found.left_out.append(f"line {instruction.line}: {word}: {_IGNORED[word]}")
            return
        self._handlers[word](instruction.rest)

    def finish(self, build_args: Mapping[str, str]) -> DockerfileSteps:
        found = self._found
        if not found.image:
            raise InvalidArgumentError("Dockerfile: there is no FROM")
        if unknown := set(build_args) - self.variables.declared:
            raise InvalidArgumentError(f"Dockerfile: there is no ARG {min(unknown)}")
        if not self._has_user:
            self._add("USER", "user")
        if not self._has_workdir:
            self._add("WORKDIR", "/home/user")
        found.start_command = self._command or None
        if self._entrypoint:
            arguments = self._arguments if self._takes_arguments else None
            found.start_command = " ".join(filter(None, (self._entrypoint, arguments)))
        if found.start_command is None:
            found.ready_command = None
        return found

    def _add(self, kind: str, *args: str) -> None:
        self._found.steps.append(Step(type=kind, args=list(args)))

    def _words(self, text: str) -> list[str]:
        return [self.variables.expand(word) for word in split(text, self.variables.escape)]

    # The beginning of the stage

    def _from(self, rest: str) -> None:
        if self._found.image:
            raise InvalidArgumentError("a template is built of one stage: there is a second FROM")
        flags, rest = _take_flags(rest, {"platform"})
        if wanted := self.variables.expand(flags.get("platform", "")):
            self._check_platform(wanted)
        words = self._words(rest)
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            raise InvalidArgumentError("FROM takes an image, and perhaps AS and a name")
        if words[0] in ("", "scratch"):
            raise InvalidArgumentError("FROM needs an image: steps need a shell to run in")
        self._found.image = words[0]
        self.variables.enter_stage()
        self._add("USER", "root")
        self._add("WORKDIR", "/")

    @staticmethod
    def _check_platform(wanted: str) -> None:
        if wanted.split("/")[:2] != ["linux", _ARCHITECTURE] and not wanted.startswith("$"):
            raise InvalidArgumentError(f"this machine runs linux/{_ARCHITECTURE}, not {wanted}")

    def _arg(self, rest: str) -> None:
        for word in split(rest, self.variables.escape):
            name, equals, value = word.partition("=")
            if not name.isidentifier():
                raise InvalidArgumentError(f"'{name[:100]}' cannot be the name of a variable")
            self.variables.declare(name, self.variables.expand(value) if equals else None)

    # Steps

    def _run(self, rest: str) -> None:
        if rest.startswith("--"):
            raise InvalidArgumentError(f"{rest.split()[0]} of RUN is not supported")
        heredocs = self._now.heredocs
        if heredocs and is_heredoc_mark(rest):
            text = _script(heredocs[0].content)
        elif heredocs:
            text = f"{rest}\n{''.join(heredoc.raw for heredoc in heredocs)}"
        else:
            text = rest
        args = self.variables.for_commands().items()
        given = "".join(f" {name}={shlex.quote(value)}" for name, value in args)
        self._add("RUN", (f"export{given}\n" if given else "") + self._shell_text(text))

    def _shell_text(self, text: str) -> str:
        """A command in shell or JSON form, as text for the shell that runs steps."""
        words = _json_list(text)
        if words is not None:
            return shlex.join(words)
        return text if self._shell is None else shlex.join([*self._shell, text])

    def _copy(self, rest: str) -> None:
        word = self._now.word
        flags, rest = _take_flags(rest, _COPY_FLAGS)
        owner = self.variables.expand(flags.get("chown", ""))
        mode = self.variables.expand(flags.get("chmod", ""))
        if mode and not _MODE.match(mode):
            raise InvalidArgumentError(f"--chmod={mode} is not supported: write it as 0755")
        listed = _json_list(rest)
        raw = split(rest, self.variables.escape) if listed is None else listed
        if len(raw) < 2:
            raise InvalidArgumentError(f"{word} needs a source and a destination")
        target = self.variables.expand(raw[-1])
        if len(raw) > 2 and not target.endswith("/"):
            raise InvalidArgumentError("the destination of several sources has to end with '/'")
        heredocs = iter(self._now.heredocs)
        for item in raw[:-1]:
            if listed is None and is_heredoc_mark(item):
                heredoc = next(heredocs)
                name = f"{INLINE}{len(self._found.inline)}/{heredoc.name}"
                text = heredoc.content
                text = text if heredoc.is_literal else self.variables.expand_plain(text)
                self._found.inline[name] = text.encode()
                self._add("COPY", name, target, owner, mode)
                continue
            source = self.variables.expand(item).lstrip("/") or "."
            self._check_source(source)
            self._add("COPY", source, target, owner, mode)

    def _check_source(self, source: str) -> None:
        is_add = self._now.word == "ADD"
        if "://" in source or source.startswith("git@"):
            what = "ADD of an address is not supported" if is_add else "COPY takes files"
            raise InvalidArgumentError(f"{what}: use RUN with curl or git")
        if _GLOB.search(source.rpartition("/")[0]):
            raise InvalidArgumentError(f"'{source}': only the last part may be a pattern")
        if self._files is None:
            return
        for name, kind in self._files.matches(source):
            if kind == "directory" and _GLOB.search(source):
                raise InvalidArgumentError(f"'{source}' means the directory {name}: copy it alone")
            if kind == "archive" and is_add:
                raise InvalidArgumentError(
                    f"ADD does not unpack {name}: use COPY, and RUN with tar"
                )

    def _env(self, rest: str) -> None:
        words = split(rest, self.variables.escape)
        name, equals, _ = words[0].partition("=")
        if not equals and len(words) > 1:
            self._set_env(name, rest[len(words[0]) :].strip())
            return
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise InvalidArgumentError(f"'{word[:100]}' is not NAME=VALUE")
            self._set_env(name, value)

    def _set_env(self, name: str, value: str) -> None:
        name = self.variables.expand(name)
        if not name.isidentifier() or not name.isascii():
            raise InvalidArgumentError(f"'{name[:100]}' cannot be the name of a variable")
        self._add("ENV", name, self.variables.set(name, value))

    def _workdir(self, rest: str) -> None:
        self._has_workdir = True
        self._add("WORKDIR", self.variables.expand(rest))

    def _user(self, rest: str) -> None:
        name, colon, group = self.variables.expand(rest).partition(":")
        name = "root" if name == "0" else name
        if name.isdigit():
            raise InvalidArgumentError("USER takes a name here, not a number")
        if colon and group not in (name, "0" if name == "root" else name):
            raise InvalidArgumentError("a group other than the user's own is not supported")
        self._has_user = True
        self._add("USER", name)

    def _volume(self, rest: str) -> None:
        words = _json_list(rest)
        paths = self._words(rest) if words is None else [self.variables.expand(w) for w in words]
        self._add("RUN", f"mkdir -p {shlex.join(paths)}", "root")

    def _set_shell(self, rest: str) -> None:
        words = _json_list(rest)
        if not words:
            raise InvalidArgumentError("SHELL takes a list in JSON")
        self._shell = words

    # Commands of sandboxes

    def _cmd(self, rest: str) -> None:
        words = _json_list(rest)
        self._command = self._shell_text(rest)
        self._arguments = shlex.join([*(self._shell or _SHELL), rest] if words is None else words)

    def _set_entrypoint(self, rest: str) -> None:
        words = _json_list(rest)
        # As with Docker, the shell form ignores the arguments of CMD.
        self._takes_arguments = words is not None
        self._entrypoint = self._shell_text(rest)

    def _healthcheck(self, rest: str) -> None:
        flags, rest = _take_flags(rest, _CHECK_FLAGS)
        del flags  # the engine decides on the interval and the timeout
        kind, _, command = rest.partition(" ")
        if kind.upper() == "NONE":
            self._found.ready_command = None
        elif kind.upper() == "CMD" and command.strip():
            self._found.ready_command = self._shell_text(command.strip())
        else:
            raise InvalidArgumentError("HEALTHCHECK takes CMD and a command, or NONE")

    def _onbuild(self, rest: str) -> None:
        raise InvalidArgumentError("ONBUILD is not supported: templates have no triggers")


def _take_flags(rest: str, known: frozenset[str] | set[str]) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    while (flag := _FLAG.match(rest)) is not None:
        if flag[1] not in known:
            raise InvalidArgumentError(f"--{flag[1]} is not supported")
        flags[flag[1]] = flag[2] or ""
        rest = rest[flag.end() :]
    return flags, rest


def _script(content: str) -> str:
    """A shell command that runs a here-document, with the program of its ``#!`` line if any."""
    if not content.startswith("#!"):
        return content
    return (
        "file=$(mktemp) && printf %s " + shlex.quote(content) + ' > "$file" && chmod 700 "$file" '
        '&& "$file" && rm "$file"'
    )


def _json_list(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if all(isinstance(item, str) for item in found) else None
