"""The provisioner that Jupyter loads to start a kernel in a sandbox."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_client.multikernelmanager import MultiKernelManager
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Bool, List, Unicode

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.client.connection.configured import named_config
from sbx_jupyter.errors import FailedPreconditionError, SbxError, see
from sbx_jupyter.kernel.pool import READY
from sbx_jupyter.kernel.sandbox import KernelSandbox, Place, Size
from sbx_jupyter.protocol.locations import KERNEL_SANDBOX_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from jupyter_client.connect import KernelConnectionInfo
T = TypeVar("T")


class SandboxProvisioner(KernelProvisionerBase):
    """Starts the kernel of a specification in a sandbox.

    The kernel gets nothing of this process's environment. Restarting keeps the sandbox and its
    files; shutting down kills a sandbox that was created for the kernel.
    """

    template: Any = Unicode(
        "code-interpreter-v1", help="The template of a sandbox that is created for a kernel."
    ).tag(config=True)
    sandbox_id: Any = Unicode(
        "", help="The sandbox to run in. Default: a new one for each kernel."
    ).tag(config=True)

    connection: Any = Unicode(
        "",
        help="The connection of c.SbxExtension.connections to use, or local. Default: the one that "
        "the environment names, else the engine of this user.",
    ).tag(config=True)
    preload: Any = List(
        Unicode(),
        ["numpy", "pandas", "matplotlib"],
        help="Modules that a sandbox which waits for a kernel has imported, of those it has.",
    ).tag(config=True)
    show: Any = List(
        Unicode(),
        help="Directories of this machine that the sandbox sees read-only, such as the environment"
        " that the kernel's program is in; of them, what all users may read.",
    ).tag(config=True)
    keep_ready: Any = Bool(
        True,
        help="In a Jupyter server, keep one sandbox ready for the next kernel after the first.",
    ).tag(config=True)

    # One object on the portal's loop per kernel; jupyter_client calls us on whatever loop it has.
    _sandbox: KernelSandbox | None = None
    _next: KernelSandbox | None = None
    """The sandbox for the next start, if it is another one."""
    _folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def has_process(self) -> bool:
        return self._sandbox is not None and self._sandbox.exit_code is None

    async def poll(self) -> int | None:
        """``None`` while the kernel runs, else its exit status."""
        return 0 if self._sandbox is None else self._sandbox.exit_code

    async def wait(self) -> int | None:
        """Wait for the end of the kernel and return its exit status."""
        if self._sandbox is None:
            return 0
        return await self._run(self._sandbox.ended())

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and all that it started."""
        if self._sandbox is not None:
            await self._run(self._sandbox.signal(signum))

    async def kill(self, restart: bool = False) -> None:
        """Kill the kernel; the sandbox stays until ``cleanup``."""
        if self._sandbox is not None:
            await self._run(self._sandbox.end_kernel())

    async def terminate(self, restart: bool = False) -> None:
        """Ask the kernel to end."""
        await self.send_signal(signal.SIGTERM)

    async def cleanup(self, restart: bool = False) -> None:
        """Close the channels; without a restart, also end the sandbox."""
        if self._sandbox is not None:
            if restart:
                await self._run(self._sandbox.end_kernel())
            else:
                sandbox, self._sandbox = self._sandbox, None
                await self._run(sandbox.aclose())
        if self._next is not None and not restart:
            unused, self._next = self._next, None
            await self._run(unused.aclose())
        if self._folder is not None and not restart:
            self._folder.cleanup()
            self._folder = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Give the kernel's sockets a folder of their own, and write the connection file."""
        manager: Any = self.parent
        kwargs.pop("extra_arguments", None)
        kwargs.pop("transport_encryption", None)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="sbx-kernel-")
            manager.transport = "ipc"
            manager.ip = str(Path(self._folder.name) / "k")
        manager.write_connection_file()
        self.connection_info: KernelConnectionInfo = manager.get_connection_info()
        return await super().pre_launch(cmd=list(self.kernel_spec.argv), **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel in its sandbox. Raises ``RuntimeError`` with the reason."""
        environment: dict[str, str] = kwargs.get("env") or {}
        session = environment.get("JPY_SESSION_NAME", "")
        envs = {**self.kernel_spec.env, **({"JPY_SESSION_NAME": session} if session else {})}
        chosen = environment.get(KERNEL_SANDBOX_VARIABLE, "") or self.sandbox_id
        try:
            await self._run(self._start(cmd, envs, PurePosixPath(session), chosen))
        except SbxError as error:
            await self.cleanup()
            raise RuntimeError(f"The kernel cannot run in a sandbox: {error}") from error
        return self.connection_info

    async def get_provisioner_info(self) -> dict[str, Any]:
        """The state that a later process needs: the id of the sandbox."""
        info = await super().get_provisioner_info()
        if self._sandbox is not None:
            info["sandbox_id"] = self._sandbox.sandbox.sandbox_id
        return info

    @property
    def sandbox_of_kernel(self) -> str | None:
        """The id of the sandbox that the kernel has, or had."""
        return None if self._sandbox is None else self._sandbox.sandbox.sandbox_id

    async def let_draw(self, mark: str, seconds: int) -> None:
        """Let the page with a mark draw what the kernel sends, for some seconds from now.

        Raises ``InvalidArgumentError``.
        """
        if self._sandbox is not None:
            self._sandbox.drawing.allow(mark, seconds)

    async def replace_sandbox(
        self, memory_mb: int | None, timeout: int | None, *, keep_files: bool = True
    ) -> tuple[str, bool]:
        """Make another sandbox, in which the kernel runs after the next restart.

        ``None`` stands for what the sandbox has; ``timeout`` is in seconds from now. Returns the id
        and whether the files are there. Raises ``SbxError``.
        """
        if self._sandbox is None:
            raise FailedPreconditionError(
                f"the kernel has no sandbox; restart it first{see('kernels')}"
            )
        return await self._run(self._replace(self._sandbox, Size(memory_mb, timeout, keep_files)))

    async def _replace(self, sandbox: KernelSandbox, size: Size) -> tuple[str, bool]:
        made, has_files = await sandbox.resized(size)
        unused, self._next = self._next, None if made is sandbox else made
        if unused is not None:
            await unused.aclose()
        return made.sandbox.sandbox_id, has_files

    async def _start(
        self, cmd: list[str], envs: dict[str, str], notebook: PurePosixPath, chosen: str
    ) -> None:
        former: KernelSandbox | None = None
        if self._next is not None:
            former, self._sandbox, self._next = self._sandbox, self._next, None
        elif self._sandbox is not None and self._sandbox.zygote.is_lost:
            former = None if await self._sandbox.revive() else self._sandbox
            self._sandbox = None if former else self._sandbox
        if former is not None:
            await former.aclose()
        if self._sandbox is None:
            name = f"kernel of {notebook.name}" if notebook.name else "kernel"
            self._sandbox = await self._find_sandbox(name, chosen)
        # A notebook that lies in its sandbox expects the files beside it.
        folder = str(notebook.parent) if chosen and notebook.is_absolute() else ""
        await self._sandbox.start(cmd, dict(self.connection_info), envs, folder)

    async def _find_sandbox(self, name: str, chosen: str) -> KernelSandbox:
        config = await (
            named_config(self.connection) if self.connection else ConnectionConfig.default()
        )
        if chosen:
            return await KernelSandbox.connect(config, chosen)
        # A kernel of another environment has no use for the modules of this one.
        modules = () if self.show else tuple(self.preload)
        place = Place(config, self.template, modules, shown=tuple(self.show))
        sandbox = await READY.take(place, name)
        # Programs that run one notebook, such as nbconvert, have no use for another sandbox.
        if self.keep_ready and isinstance(getattr(self.parent, "parent", None), MultiKernelManager):
            READY.refill(place)
        return sandbox

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the portal's loop, which outlives the loops of blocking callers."""
        return await asyncio.wrap_future(Portal.current().start(work))
