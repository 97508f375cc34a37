"""Runs one build step in a sandbox (interface 7.3)."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.templates.builds import scripts
from sbx_jupyter.engine.templates.builds.build_sandbox import CommandError
from sbx_jupyter.engine.templates.uploaded_archives import check_archive, is_gzip
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.agent import OWN_PROGRAMS
from sbx_jupyter.protocol.runtime import ProcessConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.engine.templates.builds.build_sandbox import BuildSandbox
    from sbx_jupyter.engine.templates.builds.step_state import StepState
    from sbx_jupyter.protocol.templates import Step

_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}\Z")
_OWNER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?\Z")
_MODE: Final = re.compile(r"[0-7]{1,5}\Z")
_GLOB: Final = re.compile(r"[*?\[]")
_ROOT: Final = "root"

TYPES: Final = ("RUN", "COPY", "ENV", "WORKDIR", "USER")


class StepError(InvalidArgumentError):
    """A step failed; clients get the message."""


def describe(step: Step) -> str:
    """The step as one line for the log."""
    args = step.args or []
    shown = args[:1] if step.type == "RUN" else [arg for arg in args if arg]
    return " ".join([step.type, *shown])[:1000]


def state_after(step: Step, state: StepState) -> StepState:
    """The state after a step. Raises ``StepError`` for wrong arguments."""
    args = step.args or []
    try:
        if step.type == "ENV":
            return state.with_envs(args)
        if step.type == "WORKDIR":
            if len(args) != 1 or not args[0]:
                raise InvalidArgumentError("WORKDIR takes one path")
            return state.with_workdir(args[0])
        if step.type == "USER":
            if not 1 <= len(args) <= 2:
                raise InvalidArgumentError("USER takes a name")
            if not _USER.match(args[0]):
                raise InvalidArgumentError(f"invalid username: '{args[0]}'")
            return state.with_user(args[0])
        if step.type == "RUN":
            if not 1 <= len(args) <= 2:
                raise InvalidArgumentError("RUN takes a command and a user")
        elif step.type == "COPY":
            _check_copy(step, args)
        else:
            raise InvalidArgumentError(f"there is no step of the type '{step.type}'")
    except InvalidArgumentError as error:
        raise StepError(f"failed to run step '{describe(step)}': {error.message}") from None
    return state


def _check_copy(step: Step, args: list[str]) -> None:
    if not 2 <= len(args) <= 4 or not args[1]:
        raise InvalidArgumentError("COPY takes a source, a destination, an owner and a mode")
    if step.files_hash is None:
        raise InvalidArgumentError("COPY needs the hash of its files")
    owner, mode = [*args[2:], "", ""][:2]
    if owner and not _OWNER.match(owner):
        raise InvalidArgumentError(f"'{owner}' is no owner")
    if mode and not _MODE.match(mode):
        raise InvalidArgumentError(f"'{mode}' is no octal mode")


class StepRunner:
    """Runs steps in build sandboxes."""

    def __init__(
        self,
        *,
        virtual: bool,
        timeout: float,
        say: Callable[[str, str], bool | None],
        max_bytes: int,
        has_root: bool = True,
    ) -> None:
        """``virtual``: the sandbox has one user id only, so files cannot change their owner.

        ``has_root``: it has a root file system of its own.
        """
        self._has_root = has_root
        self._virtual = "virtual" if virtual else ""
        self._is_virtual = virtual
        self._timeout = timeout
        self._say = say
        self._max_bytes = max_bytes

    async def run(
        self, sandbox: BuildSandbox, step: Step, state: StepState, upload: Path | None
    ) -> bool:
        """Run a checked step with the state after it; true when the sandbox may have changed.

        Raises ``StepError``.
        """
        args = step.args or []
        if step.type == "RUN":
            await self._command(sandbox, args[0], [*args, ""][1] or state.user, state)
            return True
        if step.type == "WORKDIR":
            return await self._script(
                sandbox, step, scripts.MAKE_DIRECTORY, state.workdir, state.user, self._virtual
            )
        if step.type == "USER":
            sudo = "true" if args[1:] == ["true"] else ""
            return await self._script(
                sandbox, step, scripts.MAKE_USER, args[0], sudo, self._virtual
            )
        if step.type == "COPY" and upload is not None:
            await self._copy(sandbox, step, state, upload)
            return True
        return False

    async def finalize(
        self, sandbox: BuildSandbox, state: StepState, template: str, build: str
    ) -> None:
        """Run the last phase of a build (interface 7.3); raises ``CommandError``."""
        path = state.envs.get("PATH", "")
        line = search_path_line(path, has_root=self._has_root) if path else ""
        args = (self._virtual, template, build, line)
        await sandbox.run(
            _script(scripts.FINALIZE, *args), user=_ROOT, timeout=self._timeout, say=self._say
        )

    async def _command(
        self, sandbox: BuildSandbox, command: str, user: str, state: StepState
    ) -> None:
        config = ProcessConfig(
            cmd="/bin/bash",
            args=["-l", "-c", shell_text(command, state, has_root=self._has_root)],
            envs=state.envs,
            cwd=state.workdir or None,
        )
        try:
            await sandbox.run(config, user=user, timeout=self._timeout, say=self._say)
        except CommandError as error:
            raise StepError(
                f"failed to run command '{command}': command failed: {error.message}"
            ) from error

    async def _script(self, sandbox: BuildSandbox, step: Step, text: str, *args: str) -> bool:
        """Run one of the scripts of ``scripts.py``; true when it reports a change."""
        said: list[str] = []

        def say(line: str, kind: str) -> None:
            if kind == "stdout":
                said.append(line)
            else:
                self._say(line, kind)

        try:
            await sandbox.run(_script(text, *args), user=_ROOT, timeout=self._timeout, say=say)
        except CommandError as error:
            raise StepError(f"failed to run step '{describe(step)}': {error.message}") from error
        return "changed" in said

    async def _copy(
        self, sandbox: BuildSandbox, step: Step, state: StepState, upload: Path
    ) -> None:
        source, target, owner, mode = [*(step.args or []), "", "", "", ""][:4]
        said: list[str] = []

        def say(line: str, kind: str) -> None:
            said.append(line)
            del said[:-20]
            self._say(line, kind)

        try:
            await asyncio.to_thread(check_archive, upload, self._max_bytes)
            prefix = static_prefix(source)
            owner = "" if self._is_virtual else owner or state.user
            gzip = "-z" if await asyncio.to_thread(is_gzip, upload) else ""
            args = (prefix, target, owner, mode, state.user, state.workdir, gzip)
            await sandbox.run(
                _script(scripts.COPY, *args),
                user=_ROOT,
                timeout=self._timeout,
                say=say,
                source=upload,
            )
        except (CommandError, InvalidArgumentError) as error:
            detail = f" ({said[-1]})" if said else ""
            raise StepError(
                f"failed to copy '{source}' to '{target}': {error.message}{detail}"
            ) from error
        except OSError as error:
            raise StepError(f"failed to copy '{source}': {error.strerror}") from error


def static_prefix(source: str) -> str:
    """The part of a source path before its first pattern (interface 7.3, COPY)."""
    parts: list[str] = []
    for part in source.split("/"):
        if _GLOB.search(part):
            break
        if part not in ("", "."):
            parts.append(part)
    if ".." in parts:
        raise InvalidArgumentError(f"'{source}' leads out of the uploaded files")
    return "/".join(parts)


def shell_text(command: str, state: StepState, *, has_root: bool = True) -> str:
    """The command, with ``PATH`` set again: a login shell's profile overwrites it."""
    path = state.envs.get("PATH")
    return command if path is None else f"{search_path_line(path, has_root=has_root)}\n{command}"


def search_path_line(path: str, *, has_root: bool) -> str:
    """A shell line that sets the search path.

    Where a sandbox has no root file system of its own, its own folders come before the machine's.
    """
    folders = (
        [] if has_root else [name for name in path.split(":") if name.startswith(OWN_PROGRAMS)]
    )
    own = "".join(f'"$SBX_ROOT"{shlex.quote(name)}:' for name in folders)
    return f"export PATH={own}{shlex.quote(path)}"


def _script(text: str, *args: str) -> ProcessConfig:
    return ProcessConfig(cmd="/bin/sh", args=["-c", text, "sh", *args], cwd="/")
