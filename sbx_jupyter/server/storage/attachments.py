"""Routes for volumes and secrets; no token of a volume and no value of a secret is sent out."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import NotFoundError, UnimplementedError
from sbx_jupyter.protocol.catalogue import VolumeDetail
from sbx_jupyter.protocol.secrets import Secret
from sbx_jupyter.protocol.volumes import Volume
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import EMPTY, Answer, Flag, Parameter, sparse

StoredVolume = sparse(VolumeDetail, "StoredVolume", keep=("volume_id", "name"))


class VolumeBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST volumes``."""

    name: str


class SecretBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST secrets``."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"SecretBody(name={self.name!r})"


class SecretValueBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST secrets/{name}``."""

    value: str

    def __repr__(self) -> str:
        return "SecretValueBody()"


class VolumesHandler(SandboxRoute):
    """Lists the volumes, with where they are mounted; ``POST`` makes one.

    With ``sizes=true`` also measures them, which may take a while.
    """

    bodies: ClassVar = {"post": VolumeBody}
    queries: ClassVar = {"get": (Parameter("sizes", "Whether to measure them.", Flag),)}
    answers: ClassVar = {
        "get": Answer({"volumes": list[StoredVolume]}),
        "post": Answer(Volume, 201),
    }

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.connection.require("volumes")
        try:
            self.connection.require("catalogue")
            sizes = self.get_query_argument("sizes", "") == "true"
            described = await self.connection.call(
                lambda platform: platform.volume_details(sizes=sizes)
            )
            self.answer({"volumes": described})
        except (NotFoundError, UnimplementedError):
            found = await self.connection.call(lambda platform: platform.volumes())
            self.answer({"volumes": found})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        self.connection.require("volumes")
        name = self.decode_body(VolumeBody).name
        made = await self.connection.call(lambda platform: platform.create_volume(name))
        self.answer(Volume(volume_id=made.volume_id, name=made.name), status=201)


class VolumeHandler(SandboxRoute):
    """Removes a volume with its files."""

    answers: ClassVar = {"delete": EMPTY}

    @web.authenticated
    @authorized
    async def delete(self, volume_id: str) -> None:
        if not await self.connection.call(lambda platform: platform.remove_volume(volume_id)):
            raise NotFoundError(f"there is no volume {volume_id}")
        self.answer_empty()


class SecretsHandler(SandboxRoute):
    """Lists the secrets without their values; ``POST`` stores one."""

    bodies: ClassVar = {"post": SecretBody}
    answers: ClassVar = {
        "get": Answer({"secrets": list[Secret]}),
        "post": Answer(Secret, 201),
    }

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.connection.require("secrets")
        found = await self.connection.call(lambda platform: platform.secrets())
        self.answer({"secrets": found})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        self.connection.require("secrets")
        body = self.decode_body(SecretBody)
        made = await self.connection.call(
            lambda platform: platform.create_secret(body.name, body.value)
        )
        self.answer(made, status=201)


class SecretHandler(SandboxRoute):
    """Gives a secret a new value, or removes it."""

    bodies: ClassVar = {"post": SecretValueBody}
    answers: ClassVar = {"post": Answer(Secret), "delete": EMPTY}

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        value = self.decode_body(SecretValueBody).value
        self.answer(
            await self.connection.call(lambda platform: platform.update_secret(name, value))
        )

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        if not await self.connection.call(lambda platform: platform.remove_secret(name)):
            raise NotFoundError(f"there is no secret {name}")
        self.answer_empty()
