"""Files and directories through the agent, with hostile ones among them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Engine, FailureError, Sandbox, read_all


def write(engine: Engine, path: str, content: bytes = b"", **fields: Any) -> dict[str, Any]:
    body, (fd,) = engine.ask("create", path=path, **fields)
    os.write(fd, content)
    os.close(fd)
    return body


def owner(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid, status.st_mode & 0o7777


@pytest.mark.parametrize(
    ("path", "user", "expected"),
    [
        ("", None, "/home/user"),
        ("~", "root", "/root"),
        ("~/x/../y", None, "/home/user/x/../y"),
        ("a/../b", "guest", "/home/guest/b"),
        ("/a/../b", None, "/a/../b"),
        ("//a/./b/", None, "/a/b"),
        ("/", None, "/"),
    ],
)
def test_paths_are_resolved(engine: Engine, path: str, user: str | None, expected: str) -> None:
    assert engine.call("resolve", path=path, user=user) == {"path": expected}


@pytest.mark.parametrize("path", ["~guest", "~guest/x", "a\0b", "x" * 4097, "\ud800"])
def test_what_cannot_be_a_path_is_refused(engine: Engine, path: str) -> None:
    for op in ("stat", "list_dir", "make_dir", "remove", "open", "create", "watch"):
        with pytest.raises(FailureError, match="invalid_argument"):
            engine.call(op, path=path)


def test_an_unknown_user_is_unauthenticated(engine: Engine) -> None:
    with pytest.raises(FailureError, match="unauthenticated: invalid username: 'nobody1'"):
        engine.call("stat", path="/", user="nobody1")


def test_a_user_that_was_just_added_is_known(sandbox: Sandbox) -> None:
    with (sandbox.root / "etc/passwd").open("a") as table:
        table.write("late:x:1500:1500::/srv:/bin/sh\n")

    assert sandbox.engine.call("resolve", path="x", user="late") == {"path": "/srv/x"}


def test_a_written_file_is_owned_and_its_parents_too(sandbox: Sandbox) -> None:
    body = write(sandbox.engine, "a/b/c.txt", b"hello", metadata={"kind": "text"})

    home = sandbox.root / "home/user"
    assert body == {
        "path": "/home/user/a/b/c.txt",
        "name": "c.txt",
        "metadata": {"kind": "text"},
    }
    assert (home / "a/b/c.txt").read_bytes() == b"hello"
    assert owner(home / "a") == owner(home / "a/b") == (1000, 1000, 0o755)
    assert owner(home / "a/b/c.txt") == (1000, 1000, 0o644)
    entry = sandbox.engine.call("stat", path="a/b/c.txt")["entry"]
    assert (entry["owner"], entry["group"], entry["metadata"]) == ("user", "user", {"kind": "text"})


def test_writing_again_keeps_the_mode_and_replaces_owner_and_metadata(sandbox: Sandbox) -> None:
    write(sandbox.engine, "/tmp/f", b"longer content", metadata={"a": "1"})
    (sandbox.root / "tmp/f").chmod(0o600)

    assert write(sandbox.engine, "/tmp/f", b"x", user="root")["metadata"] is None

    assert owner(sandbox.root / "tmp/f") == (0, 0, 0o600)
    assert (sandbox.root / "tmp/f").read_bytes() == b"x"
    assert "metadata" not in sandbox.engine.call("stat", path="/tmp/f")["entry"]


def test_reading_gives_the_content_and_what_is_known_of_it(sandbox: Sandbox) -> None:
    write(sandbox.engine, "f", b"content")

    body, (fd,) = sandbox.engine.ask("open", path="f")

    assert (body["path"], body["name"], body["size"]) == ("/home/user/f", "f", 7)
    assert body["streamed"] is False
    assert read_all(fd) == b"content"


@pytest.mark.parametrize(
    "path",
    ["/proc/1/maps", "/proc/self/environ", "/tmp/link/status", "/proc/1/exe", "/tmp/link/exe",
     "/tmp/far"],
)  # fmt: skip
def test_what_procfs_has_about_the_agent_is_refused(sandbox: Sandbox, path: str) -> None:
    link_to_the_agent(sandbox)

    for user in ("root", "user"):
        for op in ("open", "create"):
            with pytest.raises(FailureError, match="permission_denied"):
                sandbox.engine.call(op, path=path, user=user)


@pytest.mark.parametrize("path", ["/proc/1/exe", "/proc/self/exe", "/tmp/link/cwd", "/tmp/far"])
def test_links_of_procfs_about_the_agent_lead_nowhere(sandbox: Sandbox, path: str) -> None:
    link_to_the_agent(sandbox)

    entry = sandbox.engine.call("stat", path=path)["entry"]
    listed = sandbox.engine.call("list_dir", path="/proc/1", depth=1)["entries"]

    assert entry["isSymlink"] is True
    assert (entry["symlinkTarget"], entry["mode"]) == (path, 0)
    (listed_exe,) = [found for found in listed if found["name"] == "exe"]
    assert listed_exe["symlinkTarget"] == "/proc/1/exe"


def link_to_the_agent(sandbox: Sandbox) -> None:
    (sandbox.root / "tmp/link").symlink_to("/proc/self/task/1")
    (sandbox.root / "tmp/far").symlink_to("near")
    (sandbox.root / "tmp/near").symlink_to("../tmp/link/exe")


def test_files_of_procfs_are_streamed(engine: Engine) -> None:
    body, (fd,) = engine.ask("open", path="/proc/version")

    assert body["streamed"] is True
    assert read_all(fd).startswith(b"Linux")


def make_special(root: Path, kind: str) -> None:
    path = root / "tmp/special"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, 0o20666, os.makedev(1, 5))
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    elif kind == "loop":
        path.symlink_to("special")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["fifo", "device", "socket", "loop", "directory"])
def test_only_regular_files_are_opened(sandbox: Sandbox, kind: str) -> None:
    make_special(sandbox.root, kind)
    write(sandbox.engine, "/tmp/good", b"x")

    for op in ("open", "create"):
        with pytest.raises(FailureError, match="invalid_argument"):
            sandbox.engine.ask(op, path="/tmp/special")
    with pytest.raises(FailureError) as caught:
        sandbox.engine.call("compose", sources=["/tmp/good", "/tmp/special"], destination="/tmp/o")
    assert caught.value.code in ("invalid_argument", "failed_precondition")
    assert (sandbox.root / "tmp/good").exists()


@pytest.mark.parametrize("op", ["open", "stat", "list_dir", "watch"])
def test_what_is_missing_is_not_found(engine: Engine, op: str) -> None:
    for path in ("/missing", "/etc/passwd/below"):
        with pytest.raises(FailureError, match="not_found"):
            engine.ask(op, path=path)


def test_links_are_described_by_their_targets(sandbox: Sandbox) -> None:
    home = sandbox.root / "home/user"
    (home / "file").write_text("x")
    (home / "file").chmod(0o640)
    (home / "to_file").symlink_to("file")
    (home / "to_dir").symlink_to("/tmp")
    (home / "broken").symlink_to("/nowhere")

    entries = {e["name"]: e for e in sandbox.engine.call("list_dir", path="")["entries"]}

    assert list(entries) == ["broken", "file", "to_dir", "to_file"]
    assert entries["to_file"]["type"] == "FILE_TYPE_FILE"
    assert entries["to_file"]["mode"] == 0o640
    assert entries["to_file"]["permissions"] == "Lrwxrwxrwx"
    assert entries["to_file"]["symlinkTarget"] == "/home/user/file"
    assert entries["to_dir"]["type"] == "FILE_TYPE_DIRECTORY"
    assert entries["broken"]["type"] == "FILE_TYPE_UNSPECIFIED"
    assert entries["broken"]["mode"] == 0
    assert entries["broken"]["symlinkTarget"] == "/home/user/broken"


def test_listings_are_ordered_bounded_in_depth_and_named_as_asked(sandbox: Sandbox) -> None:
    (sandbox.root / "tmp/d/b/c").mkdir(parents=True)
    for name in ("d/Z", "d/a", "d/b/x", "d/b/c/deep"):
        (sandbox.root / "tmp" / name).touch()
    (sandbox.root / "tmp/link").symlink_to("d")

    def names(**fields: Any) -> list[str]:
        entries = sandbox.engine.call("list_dir", path="/tmp/link", **fields)["entries"]
        return [entry["path"].removeprefix("/tmp/link/") for entry in entries]

    assert names() == names(depth=0) == names(depth=1) == ["Z", "a", "b"]
    assert names(depth=2) == ["Z", "a", "b", "b/c", "b/x"]
    assert names(depth=9) == ["Z", "a", "b", "b/c", "b/c/deep", "b/x"]


def test_names_that_are_no_text_are_shown_with_replacements(sandbox: Sandbox) -> None:
    (sandbox.root / "tmp" / os.fsdecode(b"\xff\xfe")).touch()

    (entry,) = sandbox.engine.call("list_dir", path="/tmp")["entries"]

    assert entry["name"] == "\ufffd\ufffd"


def test_a_huge_directory_is_listed_whole(sandbox: Sandbox) -> None:
    for number in range(20_000):
        (sandbox.root / "srv" / str(number)).touch()

    assert len(sandbox.engine.call("list_dir", path="/srv")["entries"]) == 20_000


@pytest.mark.long
def test_a_huge_directory_is_read_in_halves_as_if_it_were_read_at_once(sandbox: Sandbox) -> None:
    for index in range(9000):
        path = sandbox.root / f"srv/{index:05}-\n-ä"
        path.mkdir() if index % 1500 == 0 else path.touch()
    (sandbox.root / "srv/07500-\n-ä" / "inner").touch()
    (sandbox.root / "srv/link").symlink_to("00000")
    write(sandbox.engine, "/srv/08000-\n-ä", metadata={"key": "värde"})

    entries = sandbox.engine.call("list_dir", path="/srv", depth=2)["entries"]

    names = [entry["path"] for entry in entries]
    expected = [f"/srv/{index:05}-\n-ä" for index in range(9000)]
    expected.insert(7501, "/srv/07500-\n-ä/inner")
    assert names == [*expected, "/srv/link"]
    assert sum(entry["type"] == "FILE_TYPE_DIRECTORY" for entry in entries) == 6
    (described,) = [entry for entry in entries if "metadata" in entry]
    assert described == sandbox.engine.call("stat", path="/srv/08000-\n-ä")["entry"]


def test_listing_goes_on_while_entries_vanish(sandbox: Sandbox) -> None:
    script = "while :; do mkdir -p /tmp/v/a/b; : > /tmp/v/a/b/c; rm -rf /tmp/v/a; done"
    (sandbox.root / "tmp/v").mkdir(mode=0o777)
    sandbox.engine.ask("start", cmd="/bin/sh", args=["-c", script], user="root", stdin=False)

    for _ in range(300):
        sandbox.engine.call("list_dir", path="/tmp/v", depth=9)


def test_make_dir_tells_its_obstacles_apart(sandbox: Sandbox) -> None:
    assert sandbox.engine.call("make_dir", path="x/y")["entry"]["owner"] == "user"
    write(sandbox.engine, "f")

    for path, code in (("x", "already_exists"), ("f", "invalid_argument"), ("f/g", "internal")):
        with pytest.raises(FailureError, match=f"^{code}"):
            sandbox.engine.call("make_dir", path=path)


def test_move_replaces_files_and_makes_parents(sandbox: Sandbox) -> None:
    write(sandbox.engine, "a", b"a")
    write(sandbox.engine, "deep/b", b"b")

    sandbox.engine.call("move", source="a", destination="deep/b")
    entry = sandbox.engine.call("move", source="deep", destination="new/place")["entry"]

    assert entry["path"] == "/home/user/new/place"
    assert (sandbox.root / "home/user/new/place/b").read_bytes() == b"a"
    with pytest.raises(FailureError, match="not_found"):
        sandbox.engine.call("move", source="gone", destination="x")
    sandbox.engine.call("make_dir", path="other")
    with pytest.raises(FailureError, match="internal"):
        sandbox.engine.call("move", source="other", destination="new")
    with pytest.raises(FailureError, match="invalid_argument"):
        sandbox.engine.call("move", source="new", destination="new/place/deeper")


def test_remove_takes_trees_of_any_depth_and_links_only_themselves(sandbox: Sandbox) -> None:
    (sandbox.root / "srv/kept").touch()
    (sandbox.root / "tmp/top").mkdir()
    (sandbox.root / "tmp/top/link").symlink_to("/srv")
    here = os.open(sandbox.root / "tmp/top", os.O_RDONLY)
    for _ in range(700):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    assert sandbox.engine.call("remove", path="/tmp/top") == {}
    assert sandbox.engine.call("remove", path="/tmp/top") == {}

    assert not (sandbox.root / "tmp/top").exists()
    assert (sandbox.root / "srv/kept").exists()
    with pytest.raises(FailureError, match="internal"):
        sandbox.engine.call("remove", path="/")


def test_compose_joins_files_and_removes_them(sandbox: Sandbox) -> None:
    for name in ("1", "2"):
        write(sandbox.engine, name, name.encode() * 3, user="root")

    body = sandbox.engine.call("compose", sources=["~/1", "2"], destination="out/all", user="root")

    assert body == {"path": "/root/out/all", "name": "all"}
    assert (sandbox.root / "root/out/all").read_bytes() == b"111222"
    assert sorted(path.name for path in (sandbox.root / "root").iterdir()) == ["out"]


@pytest.mark.parametrize(
    ("sources", "destination", "code"),
    [
        ([], "x", "invalid_argument"),
        (["a"], "", "invalid_argument"),
        (["a", "b"], "a", "invalid_argument"),
        (["a", "gone"], "x", "not_found: source file not found: gone"),
        (["a", "."], "x", "invalid_argument"),
        (["a"], ".", "invalid_argument"),
    ],
)
def test_compose_validates_everything_before_it_changes_anything(
    sandbox: Sandbox, sources: list[str], destination: str, code: str
) -> None:
    write(sandbox.engine, "a", b"a")
    write(sandbox.engine, "b", b"b")

    with pytest.raises(FailureError, match=code):
        sandbox.engine.call("compose", sources=sources, destination=destination)

    names = sorted(path.name for path in (sandbox.root / "home/user").iterdir())
    assert names == ["a", "b"]
