"""Routes for the pages of the documentation, so that JupyterLab shows them without a network."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.display.documentation import find_pages, find_pictures, title_of
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import IMAGE, Answer

_MEDIA: Final = {".png": "image/png", ".svg": "image/svg+xml"}


class Page(msgspec.Struct, frozen=True):
    """A page of the documentation: its name, and its first heading."""

    name: str
    title: str


class HelpHandler(SandboxRoute):
    """The pages of the documentation, by their names."""

    answers: ClassVar = {"get": Answer({"pages": list[Page]})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer({"pages": await asyncio.to_thread(_list_pages)})


class HelpPageHandler(SandboxRoute):
    """The text of a page, in Markdown."""

    answers: ClassVar = {"get": Answer({"name": str, "text": str})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        self.answer({"name": name, "text": await asyncio.to_thread(_read_page, name)})


class HelpPictureHandler(SandboxRoute):
    """A picture of a page."""

    answers: ClassVar = {"get": Answer(bytes, media=IMAGE)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        kind, content = await asyncio.to_thread(_read_picture, name)
        await self.finish(content, set_content_type=kind)


def _list_pages() -> list[Page]:
    return [Page(name, title_of(path)) for name, path in find_pages().items()]


def _read_page(name: str) -> str:
    if (path := find_pages().get(name)) is None:
        raise NotFoundError(f"there is no page '{name}'")
    return path.read_text(encoding="utf-8")


def _read_picture(name: str) -> tuple[str, bytes]:
    if (path := find_pictures().get(name)) is None:
        raise NotFoundError(f"there is no picture '{name}'")
    return _MEDIA[path.suffix], path.read_bytes()
