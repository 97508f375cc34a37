"""Turns a Dockerfile into the steps of a template build (interface 7.5)."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.templates import Step

if TYPE_CHECKING:
    from collections.abc import Callable

_READY: Final = "sleep 20"
_IGNORED: Final = (
    "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "SHELL", "STOPSIGNAL", "VOLUME",
)  # fmt: skip
_FLAG: Final = re.compile(r"--([a-z-]+)(?:=(\S*))?\s+")


@dataclass(slots=True)
class DockerfileSteps:
    """What a Dockerfile says, as a build takes it."""

    image: str = ""
    steps: list[Step] = field(default_factory=list)
    entrypoint: str | None = None
    command: str | None = None
    ignored: list[str] = field(default_factory=list)
    """Instructions that mean nothing for a template."""

    @property
    def start_command(self) -> str | None:
        parts = [part for part in (self.entrypoint, self.command) if part]
        return " ".join(parts) or None

    @property
    def ready_command(self) -> str | None:
        return _READY if self.start_command else None


def parse_dockerfile(text: str) -> DockerfileSteps:
    """Read a Dockerfile of one stage; raises ``InvalidArgumentError`` with the line's number."""
    parser = _Parser()
    for number, line in _instructions(text):
        word, _, rest = line.partition(" ")
        try:
            parser.take(word.upper(), rest.strip())
        except (InvalidArgumentError, ValueError) as error:
            message = getattr(error, "message", str(error))
            raise InvalidArgumentError(f"Dockerfile, line {number}: {message}") from None
    return parser.finish()


def _instructions(text: str) -> list[tuple[int, str]]:
    """Instructions with the number of their first line; continued lines are joined."""
    found: list[tuple[int, str]] = []
    pending, begun = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        begun = begun or number
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        found.append((begun, (pending + line).replace("\t", " ")))
        pending, begun = "", 0
    if pending:
        found.append((begun, pending.strip()))
    return found


class _Parser:
    def __init__(self) -> None:
        self._found = DockerfileSteps()
        self._has_user = False
        self._has_workdir = False
        self._verbs: dict[str, Callable[[str], None]] = {
            "FROM": self._from,
            "RUN": self._run,
            "COPY": self._copy,
            "ADD": self._copy,
            "ENV": self._env,
            "ARG": self._arg,
            "WORKDIR": self._workdir,
            "USER": self._user,
            "CMD": self._cmd,
            "ENTRYPOINT": self._entrypoint,
        }

    def take(self, word: str, rest: str) -> None:
        if word in _IGNORED:
            self._found.ignored.append(word)
            return
        verb = self._verbs.get(word)
        if verb is None:
            raise InvalidArgumentError(f"unknown instruction {word}")
        if word not in ("FROM", "ARG") and not self._found.image:
            raise InvalidArgumentError(f"{word} before FROM")
        verb(rest)

    def finish(self) -> DockerfileSteps:
        if not self._found.image:
            raise InvalidArgumentError("Dockerfile: there is no FROM")
        if not self._has_user:
            self._add("USER", "user")
        if not self._has_workdir:
            self._add("WORKDIR", "/home/user")
        return self._found

    def _add(self, kind: str, *args: str) -> None:
        self._found.steps.append(Step(type=kind, args=list(args)))

    def _from(self, rest: str) -> None:
        if self._found.image:
            raise InvalidArgumentError("a template is built of one stage: there is a second FROM")
        words = [word for word in rest.split() if not word.startswith("--")]
        if not words:
            raise InvalidArgumentError("FROM needs an image")
        self._found.image = words[0]
        self._add("USER", "root")
        self._add("WORKDIR", "/")

    def _run(self, rest: str) -> None:
        if rest.startswith("--"):
            raise InvalidArgumentError("options of RUN are not supported")
        self._add("RUN", _command(rest))

    def _copy(self, rest: str) -> None:
        flags: dict[str, str] = {}
        while (flag := _FLAG.match(rest)) is not None:
            flags[flag[1]] = flag[2] or ""
            rest = rest[flag.end() :]
        unknown = set(flags) - {"chown", "chmod", "link"}
        if unknown:
            raise InvalidArgumentError(f"--{unknown.pop()} of COPY is not supported")
        words = _json_list(rest) or shlex.split(rest)
        if len(words) < 2:
            raise InvalidArgumentError("COPY needs a source and a destination")
        *sources, target = words
        if len(sources) > 1 and not target.endswith("/"):
            target += "/"
        for source in sources:
            if "://" in source:
                raise InvalidArgumentError("ADD of an address is not supported: use RUN curl")
            owner = flags.get("chown", "")
            self._add("COPY", source.lstrip("/") or ".", target, owner, flags.get("chmod", ""))

    def _env(self, rest: str) -> None:
        words = shlex.split(rest)
        if not words:
            raise InvalidArgumentError("ENV needs a name")
        if "=" not in words[0]:
            name, _, value = rest.partition(" ")
            self._add("ENV", name, value.strip())
            return
        pairs: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise InvalidArgumentError(f"'{word}' is not NAME=VALUE")
            pairs += [name, value]
        self._add("ENV", *pairs)

    def _arg(self, rest: str) -> None:
        name, equals, value = rest.partition("=")
        if equals and self._found.image:
            self._add("ENV", name, " ".join(shlex.split(value)))

    def _workdir(self, rest: str) -> None:
        self._has_workdir = True
        self._add("WORKDIR", rest.strip("\"'"))

    def _user(self, rest: str) -> None:
        self._has_user = True
        self._add("USER", rest.partition(":")[0])

    def _cmd(self, rest: str) -> None:
        self._found.command = _command(rest)

    def _entrypoint(self, rest: str) -> None:
        self._found.entrypoint = _command(rest)


def _json_list(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if all(isinstance(item, str) for item in found) else None


def _command(text: str) -> str:
    """The shell text of a command in either form."""
    words = _json_list(text)
    if not text:
        raise InvalidArgumentError("a command is missing")
    return text if words is None else shlex.join(words)
