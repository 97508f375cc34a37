"""Git in a sandbox by the names of the ``e2b`` package, tried with the git of this machine."""

from __future__ import annotations

import base64
import http.server
import os
import shutil
import subprocess
import threading

import pytest

from sbx_jupyter.client.git import credentials
from sbx_jupyter.client.git.git import Git
from sbx_jupyter.client.git.status import parse_branches, parse_status
from sbx_jupyter.client.processes.output import CommandResult
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="this machine has no git")


class LocalCommands:
    """Runs commands on this machine, in a home of their own."""

    def __init__(self, home):
        self.home = home
        self.ran = []

    async def run(self, command, *, envs, cwd, user, timeout):
        self.ran.append((command, dict(envs)))
        finished = subprocess.run(
            command,
            shell=isinstance(command, str),
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **envs},
            cwd=cwd or self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return CommandResult(finished.stdout, finished.stderr, finished.returncode)


@pytest.fixture
def commands(tmp_path):
    return LocalCommands(tmp_path)


@pytest.fixture
def git(commands):
    return Git(commands)


@needs_git
async def test_a_repository_is_made_changed_pushed_and_cloned(git, tmp_path):
    await git.configure_user("Ann", "ann@example.org")
    await git.init("origin.git", bare=True, initial_branch="main")
    await git.clone(f"file://{tmp_path}/origin.git", "work")
    work = tmp_path / "work"
    work.joinpath("a b.txt").write_text("one\n")
    assert (await git.status("work")).has_untracked
    await git.add("work")
    await git.commit("work", "First", author_name="Bob", author_email="bob@example.org")
    await git.push("work")
    await git.create_branch("work", "topic")
    work.joinpath("a b.txt").write_text("two\n")
    work.joinpath("new\né.txt").write_text("")
    await git.add("work", ["new\né.txt"])

    status = await git.status("work")
    assert {each.name: (each.status, each.staged) for each in status.file_status} == {
        "a b.txt": ("modified", False),
        "new\né.txt": ("added", True),
    }
    assert (status.current_branch, status.detached, status.is_clean) == ("topic", False, False)
    assert (status.total_count, status.staged_count, status.unstaged_count) == (2, 1, 1)
    await git.restore("work", ["."], staged=True)
    await git.restore("work", ["a b.txt"])
    await git.reset("work", "hard")
    assert (await git.status("work")).file_status[0].status == "untracked"
    branches = await git.branches("work")
    assert (branches.branches, branches.current_branch) == (["main", "topic"], "topic")

    await git.commit("work", "Second", allow_empty=True)
    await git.push("work", branch="topic")
    await git.create_branch("work", "loose")
    await git.commit("work", "Third", allow_empty=True)
    await git.checkout_branch("work", "main")
    with pytest.raises(FailedPreconditionError, match="not fully merged"):
        await git.delete_branch("work", "loose")
    await git.delete_branch("work", "loose", force=True)
    await git.pull("work", "origin", "topic")
    assert (await git.status("work")).ahead == 1
    await git.delete_branch("work", "topic")
    await git.remote_add("work", "other", "https://example.org/x.git")
    await git.remote_add("work", "other", "https://example.org/y.git", overwrite=True)
    assert await git.remote_get("work", "other") == "https://example.org/y.git"
    assert await git.remote_get("work", "none") is None
    assert await git.get_config("user.name") == "Ann"
    assert await git.get_config("user.name", "local", "work") is None


@pytest.fixture
def private_repository(tmp_path):
    """A repository behind a server that wants a password; what was sent is in ``given``."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "p.git"], check=True)
    subprocess.run(["git", "-C", tmp_path / "p.git", "update-server-info"], check=True)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def do_GET(self):
            given = self.headers.get("Authorization", "")
            if given == "Basic " + base64.b64encode(b"ann:s3cret $x").decode():
                super().do_GET()
                return
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="p"')
            self.end_headers()

        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/p.git"
    server.shutdown()
    thread.join()
    server.server_close()


@needs_git
async def test_credentials_are_used_once_and_kept_nowhere(
    git, commands, private_repository, tmp_path
):
    for given in ({}, {"username": "ann", "password": "wrong"}):
        with pytest.raises(UnauthenticatedError):
            await git.clone(private_repository, "work", **given)
    secret = {"username": "ann", "password": "s3cret $x"}
    await git.clone(private_repository, "work", **secret)

    for command, _ in commands.ran:
        assert "s3cret" not in str(command)
    work = tmp_path / "work"
    kept = [each for each in work.rglob("*") if each.is_file() and b"s3cret" in each.read_bytes()]
    assert kept == []
    assert not tmp_path.joinpath(".git-credentials").exists()
    await git.clone(private_repository, "again", dangerously_store_credentials=True, **secret)
    assert "s3cret" in tmp_path.joinpath(".git-credentials").read_text()
    assert await git.get_config("credential.helper", "local", "again") == "store"


async def test_what_git_would_misread_is_refused(git, commands):
    for call in (
        git.clone("https://x/y", username="ann"),
        git.clone("ssh://x/y", username="ann", password="p"),
        git.clone("https://x/y", username="ann\nhost=evil", password="p"),
        git.push("r", "--receive-pack=evil"),
        git.pull("r", "origin", "--upload-pack=evil"),
        git.create_branch("r", "-x"),
        git.checkout_branch("r", ""),
        git.get_config("user.name", "local"),
        git.set_config("user.name", "x", "none"),
        git.reset("r", "none"),
        git.restore("r", []),
        git.restore("r", ["x"], staged=False, worktree=False),
    ):
        with pytest.raises(InvalidArgumentError):
            await call
    assert commands.ran == []


def test_credentials_are_for_one_host():
    given = credentials.variables("ann", "p", "https://me@example.org:8443/x/y.git")
    assert given["GIT_CONFIG_KEY_1"] == "credential.https://example.org:8443.helper"
    assert credentials.variables(None, None) == {}


async def test_a_sandbox_without_git_says_so(git, commands, monkeypatch):
    async def missing(*_, **__):
        return CommandResult("", "git: command not found", 127)

    monkeypatch.setattr(commands, "run", missing)

    with pytest.raises(NotFoundError, match="not installed"):
        await git.status("r")


def test_a_status_is_read():
    text = "\0".join(
        (
            "# branch.oid 1234",
            "# branch.head (detached)",
            "1 .M N... 100644 100644 100644 a b spaced name",
            "2 R. N... 100644 100644 100644 a b R100 after",
            "before",
            "u UU N... 100644 100644 100644 100644 a b c both",
            "1 A. N... 000000 100644 100644 a b ? new",
            "? untracked",
            "",
        )
    )
    status = parse_status(text)

    assert [(each.name, each.status) for each in status.file_status] == [
        ("spaced name", "modified"),
        ("after", "renamed"),
        ("both", "conflict"),
        ("? new", "added"),
        ("untracked", "untracked"),
    ]
    assert status.file_status[1].renamed_from == "before"
    assert (status.detached, status.has_conflicts, status.staged_count) == (True, True, 2)
    assert parse_status("# branch.head main\0# branch.ab +2 -3\0").behind == 3
    assert parse_branches("*(HEAD detached at 1)\n refs/heads/a\n").current_branch is None
