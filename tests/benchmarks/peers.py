"""What each peer does for its time, and what else it gives: the table of the report."""

from __future__ import annotations

from typing import Final

HEADINGS: Final = ("Who", "Does", "Own kernel", "Own user ids", "Limits", "Files", "Terminals")

_NOTHING: Final = ("no", "no", "no")

PEERS: Final = (
    (
        "**sbx-jupyter**",
        "A sandbox behind an HTTP interface that runs programs, until it is ended",
        "no; a filter of system calls",
        "yes, 65,536 for each sandbox with an engine of root",
        "memory, processors, processes, open files, disk",
        "writable, with snapshots and forks",
        "yes, with replay",
    ),
    (
        "`bwrap`",
        "One program in new namespaces, on the host's files",
        "no",
        "one",
        "no",
        "read-only, as called here",
        "passes its own on",
    ),
    (
        "`unshare`",
        "One program in new namespaces, on the host's files",
        "no",
        "one",
        "no",
        "the host's, writable",
        "passes its own on",
    ),
    (
        "`crun`, `runc`",
        "One container of a directory that is made before",
        "no",
        "as configured; none here",
        "memory, processors, processes",
        "the directory's",
        "yes",
    ),
    (
        "`runsc` (gVisor)",
        "As `runc`",
        "**yes**, in user space",
        "as configured; none here",
        "memory, processors",
        "the directory's",
        "yes",
    ),
    (
        "`podman`",
        "As `runc`, with images, names and a record of each container",
        "no",
        "as configured; none here",
        "memory, processors, processes",
        "writable, with images and volumes",
        "yes",
    ),
    (
        "`llm-sandbox`",
        "A session in Python on `bwrap`: a new process for each command",
        "no",
        "one",
        "by resource limits of processes",
        "a directory that is kept",
        "no",
    ),
    ("`subprocess`", "A program, from Python", *_NOTHING, "the host's", "no"),
    ("`scandir` and `stat`", "A list of a directory, in Python", *_NOTHING, "the host's", "no"),
    ("`cp` and `sync`", "A copy of files that is on the disk", *_NOTHING, "the host's", "no"),
    (
        "`btrfs subvolume snapshot`",
        "A copy that shares all blocks, without a record or a wait for a sandbox",
        *_NOTHING,
        "the host's",
        "no",
    ),
    ("a pipe", "The output of a program on the host", *_NOTHING, "no", "no"),
    (
        "`tornado`, `nginx`",
        "Serve and take files, without tokens or owners",
        *_NOTHING,
        "one directory of the host",
        "no",
    ),
    (
        "`Contents API`",
        "Jupyter's own way to list, read and write the files of the notebook server",
        *_NOTHING,
        "the host's, as JSON",
        "no",
    ),
    (
        "`terminado`",
        "Jupyter's terminals, on the host",
        *_NOTHING,
        "no",
        "yes, the last thousand pieces again",
    ),
    ("`ipykernel`", "A kernel on the host", *_NOTHING, "the host's", "no"),
    ("`%%bash`", "A shell on the host, from a cell", *_NOTHING, "the host's", "no"),
    (
        "`jupyter-server-proxy`",
        "Passes requests on to programs on the host",
        *_NOTHING,
        "no",
        "no",
    ),
)
