"""The route that makes the sandboxed variant of an installed kernel specification."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import msgspec
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import FailedPreconditionError, NotFoundError, PermissionDeniedError
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import Answer
from sbx_jupyter.server.kernels.variants import find_variant, install_variant

if TYPE_CHECKING:
    from sbx_jupyter.server.kernels.variants import Variant


class VariantBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST kernelspecs/{name}``: the directories that the user lets sandboxes see."""

    shown: list[str] = []


class KernelVariant(TypedDict):
    """How kernels of a specification run in sandboxes: ``kernel`` is the one with which they do.

    ``isThere``: whether it is installed; ``shown``: directories of the server's machine that their
    sandboxes see read-only.
    """

    kernel: str
    isThere: bool
    shown: list[str]


class VariantHandler(SandboxRoute):
    """``GET``: ``{"kernel", "isThere", "shown"}``, the sandboxed variant of a specification.

    ``POST`` installs it among the user's specifications if it is not there, for a user who has
    seen which directories of this machine it shows: others than these are refused.
    """

    bodies: ClassVar = {"post": VariantBody}
    answers: ClassVar = {"get": Answer(KernelVariant), "post": Answer(KernelVariant, 201)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        self.answer(_described(await self._find(name)))

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        body = self.decode_body(VariantBody)
        variant = await self._find(name)
        if set(variant.shown) - set(body.shown):
            needed = ", ".join(variant.shown)
            raise FailedPreconditionError(f"the kernel's sandbox must see {needed}; say so first")
        if variant.shown and self.settings["sbx_jupyter"].users is not None:
            raise PermissionDeniedError(
                "this server's users share a machine, so none of them may show its directories"
            )
        manager: Any = self.kernel_spec_manager
        made = await asyncio.to_thread(install_variant, name, manager)
        self.answer(_described(made), status=201)

    async def _find(self, name: str) -> Variant:
        manager: Any = self.kernel_spec_manager
        try:
            return await asyncio.to_thread(find_variant, name, manager)
        except NoSuchKernel:
            raise NotFoundError(f"there is no kernel '{name}'") from None


def _described(variant: Variant) -> KernelVariant:
    return {"kernel": variant.name, "isThere": variant.is_there, "shown": list(variant.shown)}
