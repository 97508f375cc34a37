"""Runtime routes that take and answer plain JSON (interface 4)."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.service.answers import JSON_UTF8
from sbx_jupyter.service.runtime.runtime_handler import RuntimeHandler

T = TypeVar("T")


class RuntimeJsonHandler(RuntimeHandler):
    """Takes and answers small JSON bodies."""

    max_body_size: ClassVar[int] = 16 * 1024 * 1024

    def read_body(self, kind: type[T]) -> T:
        """The body as a record; raises ``InvalidArgumentError``."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"invalid request body: {error}") from None

    def answer(self, body: Any) -> None:
        """End the request with a JSON body."""
        payload = msgspec.json.encode(body)
        self.set_header("Content-Type", JSON_UTF8)
        self.set_header("Content-Length", len(payload))
        self.finish(payload)

    def answer_nothing(self) -> None:
        """End the request with 204."""
        self.set_status(204)
        self.clear_header("Content-Type")
        self.finish()
