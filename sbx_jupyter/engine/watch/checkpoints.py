"""Named points in the engine's work at which a test can crash or pause it.

Without ``SBX_FAULT`` a point costs one comparison. With it, the variable names a directory. Each
point that is reached is appended to the file ``reached`` there. When the file ``armed`` has the
name of the point and an action, the engine kills itself (``kill``) or waits until the file is gone
(``pause``), so that the test can kill something else meanwhile.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

POINTS: Final[dict[str, str]] = {
    "upload.collected": "all of an upload is there, its file has the earlier content",
    "create.drafted": "nothing is made yet",
    "create.prepared": "the directories and the agent's socket are there",
    "create.caged": "the processes run, the agent is not connected",
    "create.opened": "the agent answers",
    "create.begun": "the egress proxy and the start command run",
    "create.stored": "the row is stored, the caller does not know",
    "pool.made": "a ready sandbox exists that nothing names",
    "kill.decided": "the kill is decided, nothing is done",
    "kill.ended": "the processes are gone, the row is not",
    "kill.stored": "the row is gone, the files are not",
    "kill.cleaned": "the files are gone, its layers may not be",
    "pause.frozen": "the processes stand still, the row says running",
    "pause.stored": "the row says paused, the caller does not know",
    "pause.marked": "the row says pausing, the processes run",
    "pause.ended": "the row says pausing, the processes are gone",
    "pause.synced": "the files are on the disk, the row says pausing",
    "resume.thawed": "the processes go on, the row says paused",
    "resume.booting": "the memory is given up, the new processes are not made",
    "resume.booted": "new processes run, the row says paused",
    "resume.stored": "the row says running, the caller does not know",
    "connect.found": "a connect has the sandbox, nothing is done",
    "timeout.stored": "the new end time is stored, the timer has the old one",
    "expiry.due": "the end time has come, nothing is done",
    "memory.dropped": "a paused sandbox lost its processes, the row says that it has them",
    "snapshot.frozen": "the sandbox stands still, nothing is copied",
    "snapshot.copied": "the layer is copied, no row names it",
    "snapshot.thawed": "the sandbox goes on, no row names the layer",
    "snapshot.stored": "the rows are stored, the caller does not know",
    "fork.copied": "the layer is copied, no fork is made",
    "fork.launched": "some forks run, the caller does not know",
    "flatten.begun": "the layers to merge are chosen, nothing is made",
    "flatten.copied": "the merged layer is there, no row names it",
    "flatten.stored": "rows name the merged layer, the old ones are there",
    "flatten.cleaned": "the old layers are gone that nothing needs",
    "merges.forgotten": "the row of a merged layer is gone, the layer is not",
    "layers.unused": "an unused layer is found, it is there",
    "layers.removed": "one unused layer is gone, others may not be",
    "prune.forgotten": "what the cache knew is forgotten, its layers are there",
    "template.forgotten": "the rows are gone, the layers are not",
    "build.announced": "the build waits in its row, the caller does not know",
    "build.started": "the row says building, nothing runs",
    "build.sealed": "a step has its layer, no row names it",
    "build.made": "all layers are there, the row says building",
    "build.stored": "the row says ready, the caller does not know",
    "image.unpacked": "the layer of an image is there, no row names it",
    "network.stored": "the configuration is stored, not in force",
    "network.applied": "the configuration is in force, the caller does not know",
    "volume.made": "the directory is there, no row names it",
    "volume.stored": "the row is stored, the caller does not know",
    "volume.forgotten": "the row is gone, the directory is not",
    "volume.moved": "the directory is out of the way, not emptied",
    "recovery.locked": "the directory is ours, the store is not open",
    "recovery.fenced": "the zygote runs, no row is taken up",
    "recovery.adopting": "a sandbox is about to be taken up",
    "recovery.adopted": "one sandbox is taken up, others may not be",
    "recovery.collected": "processes that no row names are gone, their files are not",
    "recovery.done": "all is taken up, nothing is served",
    "stop.drained": "the engine stops, the sandboxes run",
    "stop.ended": "the sandboxes are ended, the engine is not",
}
"""Every point, with the steps that are done and not done when it is reached."""

_MAX_PAUSE: Final = 30.0
_folder: Final = os.environ.get("SBX_FAULT")


def reached(point: str) -> None:
    """Note that a point of ``POINTS`` is reached."""
    if _folder is not None:
        _stop_at(Path(_folder), point)


def _stop_at(folder: Path, point: str) -> None:
    with (folder / "reached").open("a") as file:
        file.write(f"{point}\n")
    armed = folder / "armed"
    try:
        wanted, action = armed.read_text().split()
    except FileNotFoundError:
        return
    if wanted != point:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / "standing").touch()
    end = time.monotonic() + _MAX_PAUSE
    while armed.exists() and time.monotonic() < end:
        time.sleep(0.005)
    (folder / "standing").unlink(missing_ok=True)
