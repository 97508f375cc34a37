"""The messages on the channel between the engine and the agent of one sandbox.

The channel is a Unix SEQPACKET socket; each datagram is one JSON object and up to
``MAX_DESCRIPTORS`` descriptors. A message above ``INLINE_LIMIT`` bytes travels in a memfd: the
datagram is then ``{"memfd": <size>}`` and the memfd is the first descriptor.

Request    {"id": n, "op": "<name>", ...}
Response   {"id": n, "ok": {...}}                       and its descriptors
Failure    {"id": n, "error": {"code": "<Connect code>", "message": "...", "errno": n?}}
Event      {"event": "<name>", ...}                     not a response, without an id

The agent imports this module, so it imports only the standard library.
"""

from __future__ import annotations

from typing import Final

INLINE_LIMIT: Final = 48 * 1024
MAX_MESSAGE_SIZE: Final = 64 * 1024 * 1024
LISTING_PIECE: Final = 4096
"""Entries in one piece of the response to ``LIST_DIR``. ``sizes`` has the length of each piece in
bytes of the text of ``entries``, so that it can be decoded piece by piece."""
MAX_DESCRIPTORS: Final = 64

OWN_PROGRAMS: Final = ("/home/", "/root/", "/usr/local/", "/opt/")
"""Folders with programs of the sandbox, where it has no root file system of its own."""

EVENT_EXIT: Final = "exit"
"""``{"event": "exit", "pid": n, "status": n}``: a started process ended; ``status`` is the exit
code, or minus the signal. Repeated to each new channel until ``release``."""

EVENT_FATAL: Final = "fatal"
"""``{"event": "fatal", "message": "..."}``: the sandbox could not be set up; PID 1 exits."""

HELLO: Final = "hello"
"""-> ``{"version": 1, "processes": [{"pid", "tag", "cmd", "args", "envs", "cwd", "stdin": bool,
"pty": [cols, rows] | null, "deadline": s | null, "status": n | null}], "watches":
[...], "loopback": bool}``. First request on each channel; a new channel supersedes the one before,
whose watches are listed and end here."""

CONFIGURE: Final = "configure"
"""``{"envs": {..}, "default_user": "user", "default_cwd": "" | path}`` -> ``{}``.
Global environment and defaults of the sandbox; also writes the marker files (interface 3.3)."""

STAT: Final = "stat"
"""``{"path", "user"}`` -> ``{"entry": EntryInfo}`` (interface 3.4, JSON as on the wire)."""

LIST_DIR: Final = "list_dir"
"""``{"path", "user", "depth"}`` -> ``{"entries": [EntryInfo]}``."""

MAKE_DIR: Final = "make_dir"
"""``{"path", "user"}`` -> ``{"entry": EntryInfo}``."""

MOVE: Final = "move"
"""``{"source", "destination", "user"}`` -> ``{"entry": EntryInfo}``."""

REMOVE: Final = "remove"
"""``{"path", "user"}`` -> ``{}``."""

RESOLVE: Final = "resolve"
"""``{"path", "user"}`` -> ``{"path": absolute}`` without checking that it exists."""

OPEN: Final = "open"
"""``{"path", "user"}`` -> ``{"path", "name", "size", "mtime_ns", "mode", "streamed": bool}`` and a
descriptor open for reading. Regular files only; ``streamed`` for procfs and sysfs files, whose size
is not known. A directory gives ``invalid_argument`` ``path '<p>' is a directory``, a missing path
``not_found`` ``path '<p>' does not exist``, anything else ``invalid_argument``."""

CREATE: Final = "create"
"""``{"path", "user", "metadata": {..}}`` -> ``{"path", "name", "metadata": {..} | null}`` and a
descriptor open for writing, truncated; parents made, owner set, metadata replaced (interface 4.5).
A directory gives ``invalid_argument`` ``path is a directory: <p>``.

With ``"draft": true``, a file that has content stays as it is: the answer has ``"is_draft": true``
and a descriptor of a nameless file on the same file system, if that has such. With ``"size": n``
the file is not truncated, and there is room for that many bytes. If a descriptor came with that,
its first ``n`` bytes replace the content, and no descriptor comes back: once the request is taken,
the file gets all of them, whether or not the engine lives on."""

COMPOSE: Final = "compose"
"""``{"sources": [path], "destination": path, "user"}`` -> ``{"path", "name"}`` (interface 4.6)."""

START: Final = "start"
"""``{"cmd", "args", "envs", "cwd", "user", "tag", "stdin": bool, "pty": [cols, rows] | null,
"deadline": s | null}`` -> ``{"pid"}`` and descriptors: ``[master]`` for a pty, else
``[stdout, stderr]`` or ``[stdout, stderr, stdin]``. The agent keeps duplicates until
``release``. It also keeps ``deadline``, the time (CLOCK_MONOTONIC) at which an engine must kill the
process, for the next engine."""

ADOPT: Final = "adopt"
"""``{"pid"}`` -> ``{}`` and the same descriptors again, for a new engine."""

CLOSE_STDIN: Final = "close_stdin"
"""``{"pid"}`` -> ``{}``; drops the agent's duplicate of stdin."""

RELEASE: Final = "release"
"""``{"pid"}`` -> ``{}``; forgets an ended process and drops its descriptors."""

SIGNAL: Final = "signal"
"""``{"pid", "signal": n, "group": bool}`` -> ``{}``; ``not_found`` when it has ended."""

WATCH: Final = "watch"
"""``{"path", "user", "recursive", "allow_network_mounts"}`` -> ``{"watch": id, "path": absolute,
"wds": {"<wd>": "<relative folder>"}}`` and an inotify descriptor that the engine reads: the same
one for all watchers, until the last of them ends."""

WATCH_ADD: Final = "watch_add"
"""``{"watch", "folder": relative}`` -> ``{"wds": {"<wd>": "<relative folder>"}, "found":
[relative path]}``: watches a new folder and all below it; ``found`` are the entries that it had
already, parents first."""

UNWATCH: Final = "unwatch"
"""``{"watch"}`` -> ``{"left": n}``, the number of watchers left; its folders stay watched."""

DISARM: Final = "disarm"
"""``{"wds": [wd]}`` -> ``{}``: watches folders no longer, which no watcher needs."""

SOCKETS: Final = "sockets"
"""``{"count", "family": 4 | 6}`` -> ``{}`` and that many unconnected TCP sockets of the sandbox's
network namespace, close-on-exec and non-blocking."""

LISTEN: Final = "listen"
"""``{"host", "port"}`` -> ``{"port"}`` and one listening TCP socket of the sandbox's namespace."""

CONNECT: Final = "connect"
"""``{"port"}`` -> ``{}``, a connection to a port inside and a pipe: the keeper writes ``1`` to it,
or the number of an error with a minus sign, or closes it. Only where ``hello`` says ``loopback``;
there is no ``sockets`` then."""

LISTEN_OUTSIDE: Final = "listen_outside"
"""``{"port"}`` -> ``{}``, a SEQPACKET socket that brings the connections to a port as descriptors,
and a pipe as for ``connect``. Only where ``hello`` says ``loopback``; there is no ``listen``
then."""

USAGE: Final = "usage"
"""-> ``{"cpu_ns", "memory_bytes", "processes", "disk_used", "disk_total"}`` summed over the
sandbox's ``/proc``: for machines without cgroups."""

FREEZE: Final = "freeze"
"""``{"frozen": bool}`` -> ``{"processes": n}``: SIGSTOP or SIGCONT to all but the agent, for
machines without a freezer."""
