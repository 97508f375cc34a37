"""The state that build steps pass on to each other, and how a step changes it (interface 7.3)."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sbx_jupyter.protocol.templates import Step

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VARIABLE: Final = re.compile(
    r"\\(?P<escaped>\$)|\$\{(?P<braced>[A-Za-z_]\w*)(?::-(?P<fallback>[^}]*))?\}"
    r"|\$(?P<plain>[A-Za-z_]\w*)"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class StepState:
    """User, working directory and environment of the next step."""

    user: str = "root"
    workdir: str = ""
    envs: dict[str, str] = field(default_factory=dict[str, str])

    def with_envs(self, args: list[str]) -> StepState:
        """The state after ``ENV``; raises ``InvalidArgumentError``."""
        if not args or len(args) % 2:
            raise InvalidArgumentError("ENV takes pairs of a name and a value")
        envs = dict(self.envs)
        for name, value in zip(args[::2], args[1::2], strict=True):
            if not _NAME.match(name):
                raise InvalidArgumentError(f"'{name}' cannot be the name of a variable")
            if "\0" in value:
                raise InvalidArgumentError(f"the value of '{name}' has a NUL byte")
            envs[name] = self._expand(value, envs)
        return replace(self, envs=envs)

    def with_workdir(self, path: str) -> StepState:
        """The state after ``WORKDIR``."""
        joined = posixpath.join("/", self.workdir, path)
        return replace(self, workdir="/" + posixpath.normpath(joined).lstrip("/"))

    def with_user(self, name: str) -> StepState:
        """The state after ``USER``."""
        return replace(self, user=name)

    def _expand(self, text: str, envs: dict[str, str]) -> str:
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        known = {"PATH": _PATH, "HOME": home, "USER": self.user, **envs}

        def value(found: re.Match[str]) -> str:
            if found["escaped"]:
                return "$"
            name = found["braced"] or found["plain"]
            return known.get(name) or found["fallback"] or ""

        return _VARIABLE.sub(value, text)


def step_key(
    base: str, layers: tuple[str, ...], step: Step, state: StepState, *, owner: str = ""
) -> str:
    """The cache key of a step: a hash of the base, the layers below, the step and the state.

    Owners share no steps: what a step made depends on what its owner uploaded and could reach.
    """
    parts: list[object] = [
        base,
        list(layers),
        step.type,
        step.args or [],
        step.files_hash,
        state.user,
        state.workdir,
        sorted(state.envs.items()),
        *([owner] if owner else []),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
