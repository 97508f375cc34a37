"""Routes for kernels in sandboxes: which sandbox each has, and one for a notebook of a sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import msgspec
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web

from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, UnavailableError
from sbx_jupyter.protocol.locations import KERNEL_SANDBOX_VARIABLE
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.deployments import sandbox_calls
from sbx_jupyter.server.description.operations import EMPTY, Answer
from sbx_jupyter.server.kernels.variants import is_sandboxed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbx_jupyter.protocol.platform import ListedSandbox


class StartBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST kernels``: ``path`` is that of the notebook inside the sandbox."""

    kernel: str
    sandbox: str
    path: str = ""


class DrawingBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST kernels/{id}/drawing``: ``mark`` is the page's; 0 seconds end it."""

    mark: str
    seconds: int


class SizeBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST kernels/{id}/sandbox``: what is left out stays; ``timeout`` in seconds.

    Without ``keepFiles`` the sandbox starts from its template.
    """

    memory_mb: int | None = msgspec.field(name="memoryMB", default=None)
    timeout: int | None = None
    keep_files: bool = msgspec.field(name="keepFiles", default=True)


class KernelPlace(TypedDict):
    """A kernel of this server, and the sandbox that it runs in."""

    kernelID: str
    sandboxID: str


async def kernel_places(manager: Any) -> list[KernelPlace]:
    """Pair each sandboxed kernel of a kernel manager with its sandbox."""
    return [
        {"kernelID": kernel_id, "sandboxID": sandbox_id}
        for kernel_id in manager.list_kernel_ids()
        if (sandbox_id := await sandbox_of(manager, kernel_id))
    ]


def within(places: list[KernelPlace], sandboxes: Iterable[ListedSandbox]) -> list[KernelPlace]:
    """The kernels in one of these sandboxes: a user must not learn of others."""
    known = {each.sandbox_id for each in sandboxes}
    return [each for each in places if each["sandboxID"] in known]


async def sandbox_of(manager: Any, kernel_id: str) -> str | None:
    """The sandbox in which a kernel of a kernel manager runs."""
    try:
        provisioner = manager.get_kernel(kernel_id).provisioner
    except (KeyError, AttributeError):
        return None  # it ended meanwhile, or runs on another server
    return provisioner and (await provisioner.get_provisioner_info()).get("sandbox_id")


class KernelsHandler(SandboxRoute):
    """``GET``: the kernels in sandboxes, as ``{"kernels": [{"kernelID", "sandboxID"}]}``.

    ``POST`` starts one in a sandbox that exists, and answers ``{"kernelID"}``. It never starts a
    kernel outside: a specification whose kernels do not run in sandboxes is refused.
    """

    bodies: ClassVar = {"post": StartBody}
    answers: ClassVar = {
        "get": Answer({"kernels": list[KernelPlace]}),
        "post": Answer({"kernelID": str}, 201),
    }

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        places = await kernel_places(self.kernel_manager)
        if places and self.settings["sbx_jupyter"].users is not None:
            places = within(places, await self.connection.list_sandboxes())
        self.answer({"kernels": places})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = self.decode_body(StartBody)
        await self._check_kernel(body.kernel)
        # Raises if there is no such sandbox, or it is not this user's.
        await sandbox_calls.get(self.connection, body.sandbox)
        environment = os.environ | {
            KERNEL_SANDBOX_VARIABLE: body.sandbox,
            "JPY_SESSION_NAME": body.path,
        }
        manager: Any = self.kernel_manager
        try:
            kernel_id = await ensure_async(
                manager.start_kernel(kernel_name=body.kernel, env=environment)
            )
        except RuntimeError as error:
            raise UnavailableError(str(error)) from error
        self.answer({"kernelID": kernel_id}, status=201)

    async def _check_kernel(self, name: str) -> None:
        manager: Any = self.kernel_spec_manager
        try:
            spec = await ensure_async(manager.get_kernel_spec(name))
        except NoSuchKernel:
            raise InvalidArgumentError(f"there is no kernel '{name}'") from None
        if not is_sandboxed(spec):
            raise InvalidArgumentError(f"the kernel '{name}' does not run in a sandbox")


class KernelRoute(SandboxRoute):
    """Base of the routes for one kernel that runs in a sandbox."""

    async def provisioner(self, kernel_id: str) -> Any:
        """The provisioner of a kernel of this server, in a sandbox that the user may use.

        Raises ``NotFoundError``, ``InvalidArgumentError`` for a kernel outside.
        """
        manager: Any = self.kernel_manager
        try:
            found: Any = manager.get_kernel(kernel_id).provisioner
        except (KeyError, AttributeError, web.HTTPError):
            raise NotFoundError(f"there is no kernel {kernel_id}") from None
        if (sandbox_id := getattr(found, "sandbox_of_kernel", None)) is None:
            raise InvalidArgumentError("this kernel does not run in a sandbox")
        connections = self.connections
        if found.connection:
            connection = connections.named(found.connection)
        else:
            connection = connections.of(sandbox_id)
        try:
            await sandbox_calls.get(connection, sandbox_id)
        except NotFoundError:
            # It has ended, or it is another user's.
            if self.settings["sbx_jupyter"].users is not None:
                raise
        return found


class DrawingHandler(KernelRoute):
    """``POST kernels/{id}/drawing``: lets a page draw what a kernel sends, for some time."""

    bodies: ClassVar = {"post": DrawingBody}
    answers: ClassVar = {"post": EMPTY}

    _track_activity = False

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        body = self.decode_body(DrawingBody)
        provisioner = await self.provisioner(kernel_id)
        await provisioner.let_draw(body.mark, body.seconds)
        self.answer_empty()


class KernelSandboxHandler(KernelRoute):
    """``POST kernels/{id}/sandbox``: makes another sandbox for a kernel, used from its restart on.

    Answers ``{"sandboxID", "filesKept"}``.
    """

    bodies: ClassVar = {"post": SizeBody}
    answers: ClassVar = {"post": Answer({"sandboxID": str, "filesKept": bool}, 201)}

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        body = self.decode_body(SizeBody)
        provisioner = await self.provisioner(kernel_id)
        made, has_files = await provisioner.replace_sandbox(
            body.memory_mb, body.timeout, keep_files=body.keep_files
        )
        self.answer({"sandboxID": made, "filesKept": has_files}, status=201)
