"""Starts kernels: forked from the kernel zygote, or from an installed kernel specification."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.interpreter.program_kernels import KERNELS, missing_program

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_MESSAGE_LIMIT: Final = 64 * 1024


def start_error_path(connection_file: str) -> Path:
    """Path of the file in which a forked kernel leaves the reason why it ended."""
    return Path(f"{connection_file}.error")


def read_start_error(connection_file: str) -> str:
    """The last line of the error of a kernel that ended, after a colon; empty if there is none."""
    try:
        said = start_error_path(connection_file).read_text(errors="replace").strip()
    except OSError:
        return ""
    return f": {said.splitlines()[-1]}" if said else ""


class KernelStartError(Exception):
    """A kernel cannot be started; the message says why."""


class Launcher:
    """Starts kernels through the kernel zygote; ``lost`` is set when that is gone."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self.lost = asyncio.Event()
        self._channel = channel
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ended: dict[int, Callable[[], None]] = {}
        self._early: set[int] = set()
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_reader(channel.fileno(), self._receive)

    async def start(
        self, language: str, connection_file: str, cwd: str, ended: Callable[[], None]
    ) -> int:
        """Start a kernel; its process id, which is also its process group.

        ``ended`` is called once when it ends. Raises ``KernelStartError``.
        """
        if language in KERNELS and (missing := await asyncio.to_thread(missing_program, language)):
            raise KernelStartError(missing)
        if language == "python" or language in KERNELS:
            return await self._fork(language, connection_file, cwd, ended)
        return await self._spawn(language, connection_file, cwd, ended)

    async def _fork(
        self, kind: str, connection_file: str, cwd: str, ended: Callable[[], None]
    ) -> int:
        self._next += 1
        request = {"id": self._next, "kind": kind, "connection_file": connection_file, "cwd": cwd}
        answered = asyncio.get_running_loop().create_future()
        self._answers[self._next] = answered
        self._channel.send(json.dumps(request).encode())
        answer = await answered
        if "error" in answer:
            raise KernelStartError(answer["error"])
        pid = int(answer["pid"])
        if pid in self._early:
            self._early.discard(pid)
            raise KernelStartError(f"the kernel ended at once{read_start_error(connection_file)}")
        self._ended[pid] = ended
        return pid

    async def _spawn(
        self, language: str, connection_file: str, cwd: str, ended: Callable[[], None]
    ) -> int:
        """Start a kernel from its installed kernel spec, as Jupyter would."""
        command, envs = await asyncio.to_thread(_installed_kernel, language, connection_file)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env=os.environ | envs,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise KernelStartError(f"cannot start {command[0]}: {error.strerror}") from error

        async def watch() -> None:
            await process.wait()
            ended()

        task = asyncio.get_running_loop().create_task(watch())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return process.pid

    def _receive(self) -> None:
        try:
            raw = self._channel.recv(_MESSAGE_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        if not raw:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            for answered in self._answers.values():
                answered.set_exception(KernelStartError("the interpreter is ending"))
            self._answers.clear()
            self.lost.set()
            return
        message = json.loads(raw)
        if "exit" in message:
            if (ended := self._ended.pop(message["exit"], None)) is not None:
                ended()
            else:
                self._early.add(message["exit"])
        elif (answered := self._answers.pop(message["id"], None)) and not answered.done():
            answered.set_result(message)


def _installed_kernel(language: str, connection_file: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the first installed kernel for a language."""
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager().get_all_specs()
    for described in specs.values():
        spec = described["spec"]
        if spec.get("language", "").lower() != language or not spec.get("argv"):
            continue
        if shutil.which(spec["argv"][0]) is None:
            continue
        command = [part.replace("{connection_file}", connection_file) for part in spec["argv"]]
        command = [part.replace("{resource_dir}", described["resource_dir"]) for part in command]
        return command, spec.get("env", {})
    raise KernelStartError(f"no kernel for {language} is installed in this sandbox")
