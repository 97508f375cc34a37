"""An engine that is stopped at named steps, what is asked of it, and what it may leave behind."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from sbx_jupyter.agent.procfs import read_stat, start_time_of
from sbx_jupyter.isolation.ids.holder import NAME
from sbx_jupyter.isolation.kernel.hierarchies import find_hierarchies
from sbx_jupyter.protocol import access, connect
from tests.benchmarks.cycles import zygote_of
from tests.engine_process import EngineProcess
from tests.waiting import until, until_equal

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 60.0
SLIRP = "slirp4netns"


def adopt_orphans(yes: bool) -> None:
    """Become the parent of every process below us that loses its own: none can get lost then."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


@dataclass
class World:
    """One engine after the other on one data directory."""

    engine: EngineProcess
    faults: Path
    tier: str = "namespaces"
    has_slirp: bool = False
    """Whether each running sandbox has a process for its network."""
    client: httpx.Client = field(init=False)
    sandboxes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was said of each sandbox at its creation."""

    def start(self) -> None:
        self.disarm()
        self.engine.start()
        self._connect()

    def _connect(self) -> None:
        connection = self.engine.connection
        self.client = httpx.Client(
            base_url=connection.url,
            headers={access.API_KEY_HEADER: connection.api_key},
            timeout=60,
            trust_env=False,
        )

    # Faults

    def arm(self, point: str, action: str = "kill") -> None:
        draft = self.faults / "draft"
        draft.write_text(f"{point} {action}")
        draft.rename(self.faults / "armed")

    def disarm(self) -> None:
        (self.faults / "armed").unlink(missing_ok=True)

    def wait_death(self) -> int:
        """Wait until the engine died; its status."""
        assert self.engine.process is not None
        try:
            status = self.engine.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired as error:
            log = self.engine.log.read_text()
            raise AssertionError(f"the engine did not get to the armed step:\n{log}") from error
        self.client.close()
        return status

    def wait_standing(self) -> None:
        """Wait until the engine stands still at the armed step."""
        until(lambda: (self.faults / "standing").exists())

    # Requests

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body)

    def create(self, **fields: Any) -> str:
        answer = self.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600, **fields})
        assert answer.status_code == 201, answer.text
        sandbox_id = answer.json()["sandboxID"]
        self.sandboxes[sandbox_id] = answer.json()
        return sandbox_id

    def get(self, sandbox_id: str) -> dict[str, Any] | None:
        answer = self.ask("GET", f"/sandboxes/{sandbox_id}")
        return answer.json() if answer.status_code == 200 else None

    def listed(self) -> list[dict[str, Any]]:
        return self.ask("GET", "/v2/sandboxes?state=running,paused&limit=100").json()

    def kill_all(self, keep: set[str]) -> None:
        for sandbox in self.listed():
            if sandbox["sandboxID"] not in keep:
                answer = self.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
                assert answer.status_code in (204, 404), answer.text

    def run(self, sandbox_id: str, script: str) -> str:
        """What a script in a sandbox prints."""
        output = b""
        headers = {
            **self._headers_of(sandbox_id),
            "content-type": connect.STREAM_CONTENT_TYPE,
        }
        message = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}}
        content = connect.encode_envelope(json.dumps(message).encode())
        answer = self.client.post("/process.Process/Start", content=content, headers=headers)
        assert answer.status_code == 200, answer.text
        for _, payload in connect.EnvelopeDecoder().feed(answer.content):
            data = json.loads(payload).get("event", {}).get("data", {})
            output += _decode(data.get("stdout", ""))
        return output.decode().strip()

    def upload(self, sandbox_id: str, path: str, content: bytes) -> None:
        """Write a file of a sandbox."""
        headers = {
            **self._headers_of(sandbox_id),
            "content-type": "application/octet-stream",
        }
        answer = self.client.post("/files", params={"path": path}, content=content, headers=headers)
        assert answer.status_code == 200, answer.text

    def _headers_of(self, sandbox_id: str) -> dict[str, str]:
        token = self.sandboxes[sandbox_id].get("envdAccessToken")
        return {
            access.SANDBOX_ID_HEADER: sandbox_id,
            access.SANDBOX_PORT_HEADER: "49983",
            **({access.ACCESS_TOKEN_HEADER: token} if token else {}),
        }

    # What there is

    def leaks(self) -> dict[str, Any]:
        """Everything that is there and should not be, or is not and should."""
        shown = self.listed()
        ids = {item["sandboxID"] for item in shown}
        alive = {item["sandboxID"] for item in shown if item["state"] == "running"}
        for sandbox_id in ids - alive:
            detail = self.get(sandbox_id)
            if detail is not None and detail.get("pauseMode") == "full":
                alive.add(sandbox_id)
        data = self.engine.data_dir
        caged, others = self.processes()
        slirps = [pid for pid in others if name_of(pid) == SLIRP]
        others = [pid for pid in others if pid not in slirps]
        running = sum(item["state"] == "running" for item in shown)
        volumes = {item["volumeID"] for item in self.ask("GET", "/volumes").json()}
        layers = {name.partition(".")[0] for name in _names(data / "sandboxes")}
        everyone = [*others, *(pid for pids in caged.values() for pid in pids)]
        found = {
            "sandboxes with processes": (set(caged), alive),
            "processes of the engine": (len(others), 4 if self.engine.is_separate else 2),
            "processes of networks": (len(slirps), running if self.has_slirp else 0),
            "mount namespaces": (
                len(_namespaces(everyone)),
                1 if self.tier != "namespaces" else len(alive) + 1 + self._views(),
            ),
            "mounts": (_mounts(data), []),
            "control groups": (self.groups(), alive),
            "writable layers": (layers, ids),
            "run directories": (_names(data / "run") - ids, set()),
            "cages": (_names(data / "cages"), alive),
            "volumes": (_names(data / "volumes"), self._with_manifests(volumes)),
            "removed volumes": (_names(data / "volumes-removed"), set()),
            "further stock layers": (_further_stock_layers(data), set()),
            "layers": (_names(data / "layers"), self._with_manifests(self._named_layers())),
            "manifests apart": (_names(data / "manifests-apart"), self._apart(volumes)),
            "records": (_names(data / "manifests"), self._recorded()),
            "quarantine": (_names(data / "quarantine"), set()),
            "merged layers": (self._idle_merges(), set()),
        }
        return {what: pair for what, pair in found.items() if pair[0] != pair[1]}

    def _views(self) -> int:
        """How many mount namespaces the engine and its helper have together."""
        return len(_namespaces([os.getpid(), self.engine.pid]))

    def _with_manifests(self, trees: set[str]) -> set[str]:
        """The entries of a folder of trees: those that have a manifest beside them have two."""
        if self.engine.is_separate:
            return trees
        return {name for tree in trees for name in (tree, f"{tree}.manifest")}

    def _apart(self, volumes: set[str]) -> set[str]:
        """The manifests that an engine with a user of its own keeps in a folder of its own."""
        if not self.engine.is_separate:
            return set()
        return {
            *(f"volumes:{name}" for name in volumes),
            *(f"layers:{name}" for name in self._named_layers()),
            *(f"sandboxes:{name}" for name in _names(self.engine.data_dir / "sandboxes")),
        }

    def assert_no_leak(self) -> None:
        """Cleaning up goes on in the background, for a moment."""
        try:
            until_equal(self.leaks, {}, message="Found and expected differ", step=0.05)
        except AssertionError as error:
            error.add_note(self.engine.log.read_text()[-4000:])
            raise

    def processes(self) -> tuple[dict[str, list[int]], list[int]]:
        """The processes below us: those of each sandbox, and the others.

        Holders of ids are left out: they live as long as a zygote or a sandbox needs them.
        """
        caged: dict[str, list[int]] = {}
        others: list[int] = []
        mark = f"/{self._group}/"
        for pid in descendants(os.getpid()):
            try:
                groups = Path(f"/proc/{pid}/cgroup").read_text()
            except OSError:
                continue
            if name_of(pid) == NAME:
                continue
            if mark in groups:
                sandbox_id = groups.partition(mark)[2].split("\n")[0].split("/")[0]
                caged.setdefault(sandbox_id, []).append(pid)
            else:
                others.append(pid)
        return caged, others

    def caged(self, sandbox_ids: set[str]) -> dict[str, list[int]]:
        """The processes of some sandboxes."""
        return {name: pids for name, pids in self.processes()[0].items() if name in sandbox_ids}

    def zygote(self) -> int:
        """The process id of the zygote."""
        assert self.engine.process is not None
        return zygote_of(self.engine.process.pid)

    def first_process(self, sandbox_id: str) -> int:
        """The host's id of the agent of a sandbox."""
        return min(self.processes()[0][sandbox_id])

    def groups(self) -> set[str]:
        hierarchies = find_hierarchies()
        parents = [*hierarchies.v1.values(), *([hierarchies.v2] if hierarchies.v2 else [])]
        return {
            entry.name
            for parent in parents
            if (parent / self._group).is_dir()
            for entry in (parent / self._group).iterdir()
            if entry.is_dir()
        }

    def is_frozen(self, sandbox_id: str) -> bool:
        hierarchies = find_hierarchies()
        if hierarchies.v2 is not None:
            events = hierarchies.v2 / self._group / sandbox_id / "cgroup.events"
            return "frozen 1" in events.read_text()
        state = hierarchies.v1["freezer"] / self._group / sandbox_id / "freezer.state"
        return state.read_text().strip() == "FROZEN"

    @property
    def _group(self) -> str:
        name = os.fsencode(self.engine.data_dir.resolve())
        return f"sbx-{hashlib.sha256(name).hexdigest()[:8]}"

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What is stored, by the side of the engine."""
        import sqlite3

        path = self.engine.data_dir / "engine.db"
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
            found = connection.execute(f"SELECT record FROM {table}").fetchall()
        return [json.loads(record) for (record,) in found]

    def _named_layers(self) -> set[str]:
        rows = [*self.rows("sandboxes"), *self.rows("builds")]
        named = {name for row in rows for name in row.get("layers", ())}
        for row in (*self.rows("steps"), *self.rows("images")):
            named |= {*row.get("layers", ()), *row.get("below", ())}
        named |= {row["key"] for row in self.rows("merges")}
        for row in (*self.rows("steps"), *self.rows("images")):
            named.update(row.get("layers", ()), row.get("below", ()))
        return {name.removeprefix("layers/") for name in named}

    def _recorded(self) -> set[str]:
        """The names of the manifests of what has no directory of its own."""
        builds = [row for row in self.rows("builds") if row.get("status") == "ready"]
        return {
            *(f"builds-{row['build_id']}" for row in builds),
            *(f"templates-{row['template_id']}" for row in self.rows("templates")),
            *(f"secrets-{row['secret_id']}" for row in self.rows("secrets")),
        }

    def _idle_merges(self) -> set[str]:
        """Merged layers that stand for layers of nothing."""
        rows = [*self.rows("sandboxes"), *self.rows("builds")]
        named = {name for row in rows for name in row.get("layers", ())}
        merges = {row["key"]: set(row["layers"]) for row in self.rows("merges")}
        named |= merges.keys()
        return {key for key, layers in merges.items() if not layers <= named}


class LandlockWorld(World):
    """An engine of an ordinary user whose sandboxes have Landlock alone, and no control groups."""

    def processes(self) -> tuple[dict[str, list[int]], list[int]]:
        caged: dict[str, list[int]] = {}
        for name, keeper in self.keepers().items():
            guardian = parent_of(keeper)
            is_guarded = guardian is not None and guardian not in (os.getpid(), self.engine.pid)
            first = guardian if guardian is not None and is_guarded else keeper
            caged[name] = [first, *descendants(first)]
        known = {pid for pids in caged.values() for pid in pids}
        return caged, [pid for pid in descendants(os.getpid()) if pid not in known]

    def keepers(self) -> dict[str, int]:
        """The process that keeps each sandbox which may live."""
        found: dict[str, int] = {}
        for name in _names(self.engine.data_dir / "cages"):
            with contextlib.suppress(OSError, ValueError):
                record = json.loads((self.engine.data_dir / "cages" / name).read_text())
                if start_time_of(record["pid"]) == record["start_time"]:
                    found[name] = record["pid"]
        return found

    def groups(self) -> set[str]:
        return set(self.processes()[0])


def parent_of(pid: int) -> int | None:
    """The parent of a process; None for one that is gone."""
    stat = read_stat(pid)
    return None if stat is None else stat.parent


def reap(engine: EngineProcess) -> None:
    """Take the status of processes that were handed to us, but not of the engine."""
    own = None if engine.process is None else engine.process.pid
    for pid in children_of(os.getpid()):
        if pid != own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def name_of(pid: int) -> str:
    """The name of a process; empty for one that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _decode(text: str) -> bytes:
    import base64

    return base64.b64decode(text)


def _further_stock_layers(data: Path) -> set[str]:
    """All but the newest, and those that sandboxes stand on since the machine had other files.

    Each may have masks beside it, of the directories that some sandboxes are shown.
    """
    names = _names(data / "stock")
    found = {name for name in names if name.removesuffix(".masks") not in names or "." not in name}
    whole = [name for name in found if "." not in name]
    needed = {max(whole, key=lambda name: (data / "stock" / name).stat().st_mtime)}
    for record in (data / "cages").glob("i*"):
        with contextlib.suppress(OSError, ValueError):
            needed.add(json.loads(record.read_text())["stock"])
    return found - needed


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _mounts(data_dir: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(data_dir) in line]


def _namespaces(pids: list[int]) -> set[str]:
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/mnt"))
    return found


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(pid):
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    for child in children_of(pid):
        yield child
        yield from descendants(child)


def end_process(pid: int) -> None:
    """Kill a process and wait until it is gone; one that is frozen dies when it is thawed."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], 0.5)
    finally:
        os.close(descriptor)
