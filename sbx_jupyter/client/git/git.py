"""Runs git in a sandbox, by the names of the ``e2b`` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypedDict

from sbx_jupyter.client.git import credentials
from sbx_jupyter.client.git.status import parse_branches, parse_status
from sbx_jupyter.client.processes.commands import DEFAULT_TIMEOUT
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from sbx_jupyter.client.git.status import GitBranches, GitStatus
    from sbx_jupyter.client.processes.commands import Commands
    from sbx_jupyter.client.processes.output import CommandResult
    from sbx_jupyter.errors import SbxError

Scope = Literal["global", "local", "system"]
ResetMode = Literal["soft", "mixed", "hard", "merge", "keep"]

DEFAULT_REMOTE: Final = "origin"
_SCOPES: Final = ("global", "local", "system")
_MODES: Final = ("soft", "mixed", "hard", "merge", "keep")
_NOT_INSTALLED: Final = 127
_NO_REMOTE: Final = 2
_MAX_MESSAGE: Final = 2000
_REFUSED: Final = (
    "authentication failed",
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "invalid username or",
    "permission denied (publickey",
)
_APPROVE: Final = (
    'printf "protocol=%s\\nhost=%s\\nusername=%s\\npassword=%s\\n\\n" '
    f'"$SBX_GIT_PROTOCOL" "$SBX_GIT_HOST" "${credentials.USERNAME}" "${credentials.PASSWORD}"'
)


class GitOptions(TypedDict, total=False):
    """Further options of each call: how the command runs, as in ``commands.run``."""

    envs: Mapping[str, str] | None
    user: str | None
    cwd: str | None
    timeout: float | None


class Git:
    """Git in one sandbox. ``path`` is that of the repository.

    Each call raises ``FailedPreconditionError`` with git's words when git fails,
    ``UnauthenticatedError`` when a remote refuses the credentials or wants some, ``NotFoundError``
    when git is not installed, and the errors of ``commands.run``. Arguments of one word must not
    begin with a dash. A username and a password are in variables of the one command alone, where
    code in the sandbox that runs as the same user can read them meanwhile.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def init(
        self,
        path: str,
        bare: bool = False,
        initial_branch: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Make a repository."""
        branch = [f"--initial-branch={initial_branch}"] if initial_branch else []
        return await self._run("init", *["--bare"] * bare, *branch, "--", path, options=options)

    async def clone(
        self,
        url: str,
        path: str | None = None,
        branch: str | None = None,
        depth: int | None = None,
        username: str | None = None,
        password: str | None = None,
        dangerously_store_credentials: bool = False,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Clone a repository, by default to a folder of its name.

        The credentials go to the host of ``url`` only. ``dangerously_store_credentials`` leaves
        them in the sandbox, where all its code can read them.
        """
        extra = credentials.variables(username, password, url)
        result = await self._run(
            "clone",
            *([f"--branch={branch}"] if branch else []),
            *([f"--depth={depth}"] if depth else []),
            *("--", url),
            *([path] if path else []),
            options=options,
            extra=extra,
        )
        if dangerously_store_credentials and extra:
            folder = path or url.rstrip("/").rpartition("/")[2].removesuffix(".git")
            protocol, _, rest = url.partition("://")
            host = rest.partition("/")[0].rpartition("@")[2]
            await self._approve(extra, protocol, host, ("-C", folder), "--local", options)
        return result

    async def status(self, path: str, **options: Unpack[GitOptions]) -> GitStatus:
        """Describe the branch and the files that differ from the last commit."""
        arguments = ("status", "--porcelain=v2", "--branch", "-z")
        return parse_status((await self._run(*arguments, path=path, options=options)).stdout)

    async def branches(self, path: str, **options: Unpack[GitOptions]) -> GitBranches:
        """List the local branches."""
        arguments = ("branch", "--format=%(HEAD)%(refname)")
        return parse_branches((await self._run(*arguments, path=path, options=options)).stdout)

    async def create_branch(
        self, path: str, branch: str, **options: Unpack[GitOptions]
    ) -> CommandResult:
        """Make a branch and check it out."""
        return await self._run("checkout", "-b", _word(branch), path=path, options=options)

    async def checkout_branch(
        self, path: str, branch: str, **options: Unpack[GitOptions]
    ) -> CommandResult:
        """Check out a branch that is there."""
        return await self._run("checkout", _word(branch), "--", path=path, options=options)

    async def delete_branch(
        self, path: str, branch: str, force: bool = False, **options: Unpack[GitOptions]
    ) -> CommandResult:
        """Remove a branch; with ``force`` also one that is not merged."""
        flag = "-D" if force else "-d"
        return await self._run("branch", flag, "--", branch, path=path, options=options)

    async def add(
        self,
        path: str,
        files: Sequence[str] | None = None,
        all: bool = True,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Stage files; without ``files`` all changes, or with ``all=False`` those below it."""
        chosen = ["--", *files] if files else ["--all"] if all else ["."]
        return await self._run("add", *chosen, path=path, options=options)

    async def commit(
        self,
        path: str,
        message: str,
        author_name: str | None = None,
        author_email: str | None = None,
        allow_empty: bool = False,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Commit what is staged; without an author, the configured one."""
        author = [f"user.name={author_name}"] if author_name else []
        author += [f"user.email={author_email}"] if author_email else []
        return await self._run(
            *(part for setting in author for part in ("-c", setting)),
            "commit",
            f"--message={message}",
            *["--allow-empty"] * allow_empty,
            path=path,
            options=options,
        )

    async def reset(
        self,
        path: str,
        mode: ResetMode | None = None,
        target: str | None = None,
        paths: Sequence[str] | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Move the branch to ``target`` (default: the last commit), or unstage ``paths``."""
        if mode is not None and mode not in _MODES:
            raise InvalidArgumentError(f"mode must be one of {', '.join(_MODES)}")
        arguments = [f"--{mode}"] if mode else []
        arguments += [_word(target)] if target else []
        arguments += ["--", *paths] if paths else []
        return await self._run("reset", *arguments, path=path, options=options)

    async def restore(
        self,
        path: str,
        paths: Sequence[str],
        staged: bool | None = None,
        worktree: bool | None = None,
        source: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Take back changes of files: in the working tree, or of what is ``staged``."""
        if not paths:
            raise InvalidArgumentError("name the paths to restore; '.' for all")
        if staged is False and worktree is False:
            raise InvalidArgumentError("restore the index, the working tree, or both")
        arguments = ["--staged"] if staged else []
        arguments += ["--worktree"] if worktree or staged is False else []
        arguments += [f"--source={source}"] if source else []
        return await self._run("restore", *arguments, "--", *paths, path=path, options=options)

    async def push(
        self,
        path: str,
        remote: str | None = None,
        branch: str | None = None,
        set_upstream: bool = True,
        username: str | None = None,
        password: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Push a branch, by default the current one to where it was pushed before.

        The credentials go to the host of the remote, which code in the sandbox can set.
        """
        target = _target(remote, branch)
        if set_upstream and not target:
            arguments = ["-c", "push.autoSetupRemote=true", "push"]
        elif set_upstream:
            arguments = ["push", "--set-upstream", *target, *([] if branch else ["HEAD"])]
        else:
            arguments = ["push", *target]
        extra = credentials.variables(username, password)
        return await self._run(*arguments, path=path, options=options, extra=extra)

    async def pull(
        self,
        path: str,
        remote: str | None = None,
        branch: str | None = None,
        username: str | None = None,
        password: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Fetch and merge, by default from where the branch was pushed to.

        The credentials go to the host of the remote, which code in the sandbox can set.
        """
        extra = credentials.variables(username, password)
        arguments = ("pull", *_target(remote, branch))
        return await self._run(*arguments, path=path, options=options, extra=extra)

    async def remote_add(
        self,
        path: str,
        name: str,
        url: str,
        fetch: bool = False,
        overwrite: bool = False,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Add a remote; ``overwrite`` changes the URL of one that is there."""
        known = overwrite and await self.remote_get(path, name, **options) is not None
        verb = "set-url" if known else "add"
        result = await self._run("remote", verb, "--", name, url, path=path, options=options)
        if fetch:
            return await self._run("fetch", _word(name), path=path, options=options)
        return result

    async def remote_get(self, path: str, name: str, **options: Unpack[GitOptions]) -> str | None:
        """The URL of a remote; ``None`` if there is none of this name."""
        arguments = ("remote", "get-url", "--", name)
        result = await self._run(*arguments, path=path, options=options, accepted=(_NO_REMOTE,))
        return None if result.exit_code else result.stdout.removesuffix("\n")

    async def set_config(
        self,
        key: str,
        value: str,
        scope: Scope = "global",
        path: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Set a value of git's configuration; ``local`` is that of the repository at ``path``."""
        flag = _scope(scope, path)
        return await self._run("config", flag, _word(key), value, path=path, options=options)

    async def get_config(
        self,
        key: str,
        scope: Scope = "global",
        path: str | None = None,
        **options: Unpack[GitOptions],
    ) -> str | None:
        """A value of git's configuration; ``None`` if it is not set in this scope."""
        arguments = ("config", _scope(scope, path), "--get", _word(key))
        result = await self._run(*arguments, path=path, options=options, accepted=(1,))
        return None if result.exit_code else result.stdout.removesuffix("\n")

    async def configure_user(
        self,
        name: str,
        email: str,
        scope: Scope = "global",
        path: str | None = None,
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Set the author of commits."""
        await self.set_config("user.name", name, scope, path, **options)
        return await self.set_config("user.email", email, scope, path, **options)

    async def dangerously_authenticate(
        self,
        username: str,
        password: str,
        host: str = "github.com",
        protocol: str = "https",
        **options: Unpack[GitOptions],
    ) -> CommandResult:
        """Leave credentials for a host in the sandbox, where all its code can read them."""
        extra = credentials.variables(username, password, f"{protocol}://{host}")
        return await self._approve(extra, protocol, host, (), "--global", options)

    async def _approve(
        self,
        extra: Mapping[str, str],
        protocol: str,
        host: str,
        place: tuple[str, ...],
        scope: str,
        options: GitOptions,
    ) -> CommandResult:
        """Configure git's store of credentials and put some in."""
        await self._run(*place, "config", scope, "credential.helper", "store", options=options)
        named = {name: extra[name] for name in (credentials.USERNAME, credentials.PASSWORD)}
        named |= {"SBX_GIT_PROTOCOL": protocol, "SBX_GIT_HOST": host}
        git = "git credential approve"
        if place:
            named["SBX_GIT_PLACE"] = place[1]
            git = 'git -C "$SBX_GIT_PLACE" credential approve'
        return await self._execute(f"{_APPROVE} | {git}", options, named)

    async def _run(
        self,
        *arguments: str,
        options: GitOptions,
        path: str | None = None,
        extra: Mapping[str, str] | None = None,
        accepted: tuple[int, ...] = (),
    ) -> CommandResult:
        place = [] if path is None else ["-C", path]
        return await self._execute(["git", *place, *arguments], options, extra, accepted)

    async def _execute(
        self,
        command: str | list[str],
        options: GitOptions,
        extra: Mapping[str, str] | None = None,
        accepted: tuple[int, ...] = (),
    ) -> CommandResult:
        envs = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", **(options.get("envs") or {})}
        result = await self._commands.run(
            command,
            envs={**envs, **(extra or {})},
            cwd=options.get("cwd"),
            user=options.get("user"),
            timeout=options.get("timeout", DEFAULT_TIMEOUT),
        )
        if result.exit_code not in (0, *accepted):
            raise _failure(result)
        return result


def _failure(result: CommandResult) -> SbxError:
    said = (result.stderr.strip() or result.stdout.strip())[-_MAX_MESSAGE:]
    if result.exit_code == _NOT_INSTALLED:
        return NotFoundError("git is not installed in this sandbox")
    if any(each in said.lower() for each in _REFUSED):
        return UnauthenticatedError(said)
    return FailedPreconditionError(said or f"git ended with {result.exit_code}")


def _word(text: str) -> str:
    """An argument that git would take for an option if it began with a dash."""
    if not text or text.startswith("-"):
        raise InvalidArgumentError(f"'{text}' is no name: it is empty or begins with a dash")
    return text


def _target(remote: str | None, branch: str | None) -> list[str]:
    if branch is None:
        return [] if remote is None else [_word(remote)]
    return [_word(remote or DEFAULT_REMOTE), _word(branch)]


def _scope(scope: str, path: str | None) -> str:
    if scope not in _SCOPES:
        raise InvalidArgumentError(f"scope must be one of {', '.join(_SCOPES)}")
    if scope == "local" and path is None:
        raise InvalidArgumentError("the scope 'local' needs the path of a repository")
    return f"--{scope}"
