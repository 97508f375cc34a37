"""The table of ``docs/tiers.md``, which ``python -m tests.tiers.rows`` writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "tiers.md"

ROOT: Final = "root"
MANY: Final = "many ids"
ONE: Final = "one id"
LANDLOCK: Final = "landlock"
NONE: Final = "none"

TIERS: Final = {
    ROOT: "`namespaces`, engine of root",
    MANY: "`namespaces`, user with subordinate ids",
    ONE: "`namespaces`, user with one id",
    LANDLOCK: "`landlock`",
    NONE: "`none`",
}
"""The kinds of engines, and how the page calls them."""


@dataclass(frozen=True, slots=True)
class Row:
    """Something that users expect of a sandbox.

    It works where ``command`` prints ``expected``; without a command, where the function of
    ``test_tiers`` with this name gives that. ``lacks`` says why it does not work in some tiers.
    """

    what: str
    command: str
    expected: str
    lacks: dict[str, str] = field(default_factory=dict[str, str])

    def cell(self, kind: str) -> str:
        """What the page says for a kind of engine."""
        return f"no: {self.lacks[kind]}" if kind in self.lacks else "yes"


_NO_ROOT: Final = "one directory in place of a root file system"
_NOTHING: Final = "nothing isolates"
_ONE_ID: Final = "it succeeds and changes nothing"

ROWS: Final = (
    Row("relative paths, `~`, the working directory", "cd; echo x > f && cat ~/f", "x"),
    Row(
        "absolute paths such as `/home/user/f` in programs",
        "echo x > /home/user/f && cat /home/user/f",
        "x",
        {LANDLOCK: _NO_ROOT, NONE: _NO_ROOT},
    ),
    Row(
        "files of the machine's users stay closed",
        "cat {secret} 2> /dev/null || echo closed",
        "closed",
        {NONE: _NOTHING},
    ),
    Row(
        "processes of the machine are out of reach",
        "kill -0 {pid} 2> /dev/null || echo closed",
        "closed",
        {NONE: _NOTHING},
    ),
    Row(
        "services of the machine are out of reach",
        "curl -s -o /dev/null --noproxy '*' localhost:{port} || echo closed",
        "closed",
        {NONE: _NOTHING},
    ),
    Row(
        "a server and a client inside, by `localhost`",
        "cd; python3 -m http.server {own_port} > /dev/null 2>&1 & "
        "for i in $(seq 200); do curl -s -o /dev/null localhost:{own_port} && break; sleep 0.1; "
        "done; kill %1; echo $((i < 200))",
        "1",
    ),
    Row(
        "UDP inside",
        "python3 -c 'import socket; socket.socket(2, 2); print(1)'",
        "1",
        {LANDLOCK: "the keeper connects streams only"},
    ),
    Row("a port, seen from outside", "", "answered"),
    Row(
        "a way out that obeys allow and deny lists",
        "",
        "allowed denied",
        {NONE: "the network of the machine"},
    ),
    Row("terminals", "", "typed"),
    Row("the code interpreter", "", "42"),
    Row("`whoami` says `user`", "whoami", "user"),
    Row("`sudo` without a password", "sudo whoami", "root"),
    Row("`su`", "sudo su user -c whoami", "user"),
    Row("`useradd`", "sudo useradd -m ann && sudo su - ann -c 'basename $HOME'", "ann"),
    Row(
        "`groupadd`, `usermod -aG`, `chpasswd`",
        "sudo useradd bob && sudo groupadd crew && sudo usermod -aG crew bob && "
        "echo bob:p | sudo chpasswd 2> /dev/null && echo done",
        "done",
    ),
    Row(
        "`chown` succeeds",
        "cd; touch owned && sudo chown www-data owned && echo done",
        "done",
        {NONE: "only the machine's root may"},
    ),
    Row(
        "`chown` changes the owner",
        "cd; touch changed && sudo chown www-data changed; stat -c %U changed",
        "www-data",
        {ONE: _ONE_ID, LANDLOCK: _ONE_ID, NONE: "only the machine's root may"},
    ),
    Row("`pip install`", "cd; pip install -q {wheel} && python3 -c 'import sbx_tried as t; "
        "print(t.SAID)'", "hello"),
    Row("`sudo pip install`", "cd; pip uninstall -qy sbx_tried; sudo pip install -q {wheel} && "
        "python3 -c 'import sbx_tried as t; print(t.SAID)'", "hello"),
    Row(
        "`apt-get install ./x.deb`, on Debian and Ubuntu",
        "cd; sudo apt-get install -y {package} > /dev/null && sbx-says-hello",
        "hello",
        {LANDLOCK: _NO_ROOT, NONE: _NO_ROOT},
    ),
    Row("pause and resume", "", "42"),
    Row("fork", "", "42"),
    Row("snapshots", "", "42"),
    Row("template builds", "", "42"),
    Row("container images", "", "imported", {LANDLOCK: _NO_ROOT, NONE: _NO_ROOT}),
    Row("volumes", "", "kept", {LANDLOCK: _NO_ROOT, NONE: _NO_ROOT}),
    Row(
        "`mount`, new namespaces",
        "sudo mount -t tmpfs none /mnt && unshare -U true && echo mounted",
        "mounted",
        dict.fromkeys(TIERS, "no sandbox may") | {NONE: "only the machine's root may mount"},
    ),
)  # fmt: skip

_HEAD: Final = """\
# What works where

`jupyter sbx doctor` says which isolation a machine gives. `make test-tiers` starts an engine of
each kind, tries each line in a sandbox of it, and fails where this table is wrong.

"""

_FOOT: Final = """
Where sandboxes have one id, `root` and `user` are two names of it: `sudo`, `su` and `whoami` follow
the name, and `id` shows the id. Programs of container images show `root` there. With
`landlock`, `apt-get`, container images and volumes are refused in a line that says why.

`make test-tiers` also runs the tests of the unmodified `e2b` packages with each kind of engine. All
pass with the first two. With one id, three tests see another owner of files. With `landlock` and
`none`, those that compare whole paths see longer ones, below the directory that stands for the
root; with `landlock`, programs cannot look at processes below `/proc`.

[Use it from other programs](use-it-from.md#what-was-tried) says which checks of seven programs, all
of other people, pass with each.

[The threat model](threat-model.md) says what holds in each tier, [limits](limits.md) which limits
are kept, and [containers](containers.md) how a container gets more.
"""


_BY_HAND: Final = "\n## "
"""What begins with the first such heading of the page is written by hand."""


def page() -> str:
    """The text of the page, with its part that is written by hand."""
    lines = [
        f"| | {' | '.join(TIERS.values())} |",
        "|---|" + "---|" * len(TIERS),
        *(f"| {row.what} | {' | '.join(map(row.cell, TIERS))} |" for row in ROWS),
    ]
    _, heading, by_hand = PAGE.read_text().partition(_BY_HAND)
    return _HEAD + "\n".join(lines) + "\n" + _FOOT + heading + by_hand


if __name__ == "__main__":
    PAGE.write_text(page())
