"""Environment variables of one execution, set and restored in the kernel's own language."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, Final, cast

_SHELL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class SandboxVariables:
    """The sandbox's current variables (``GET /envs``), which the engine writes to a file."""

    def __init__(self, path: str | None) -> None:
        """Without a ``path``, the variables are those of this process."""
        self._path = path

    def read(self) -> dict[str, str]:
        """Read the variables; empty if a program in the sandbox has damaged the file."""
        if self._path is None:
            return {}
        try:
            found = json.loads(Path(self._path).read_bytes())
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        variables = cast("dict[str, Any]", found)
        return {name: value for name, value in variables.items() if isinstance(value, str)}

    def changed(self) -> dict[str, str]:
        """The variables that differ from those of this process, and so of its kernels."""
        return {name: value for name, value in self.read().items() if os.environ.get(name) != value}


def setting(language: str, envs: dict[str, str]) -> str | None:
    """Code that sets the variables; ``None`` where the language offers no way."""
    return _code(language, dict(envs))


def restoring(language: str, envs: dict[str, str], sandbox: SandboxVariables) -> str | None:
    """Code that gives the variables back the sandbox's value, or removes them."""
    current = {**os.environ, **sandbox.read()}
    return _code(language, {name: current.get(name) for name in envs})


def _code(language: str, envs: dict[str, str | None]) -> str | None:
    """Code that sets each variable, or removes it where the value is ``None``."""
    if language == "python":
        return (
            f"for _k, _v in {envs!r}.items():\n"
            "    __import__('os').environ.pop(_k, None)\n"
            "    if _v is not None: __import__('os').environ[_k] = _v\n"
            "del _k, _v"
        )
    if language == "bash":
        named = {name: value for name, value in envs.items() if _SHELL_NAME.match(name)}
        return "\n".join(
            f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
            for name, value in named.items()
        )
    if language in ("javascript", "typescript"):
        return (
            f"for (const [k, v] of Object.entries({json.dumps(envs)}))"
            " { if (v === null) delete process.env[k]; else process.env[k] = v; }"
        )
    return None
