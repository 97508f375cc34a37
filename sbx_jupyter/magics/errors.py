"""The failures of the magics, which a notebook shows in one line."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from sbx_jupyter.display.text import clean, one_line
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Generator

_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
_LONGEST_TRACEBACK: Final = 20_000


class MagicError(Exception):
    """The request of the user cannot be carried out; the message says what to do instead."""

    def _render_traceback_(self) -> list[str]:
        return [f"{_RED}sbx{_PLAIN}: {self}"]


class InterruptedCodeError(KeyboardInterrupt):
    """The user interrupted code in a sandbox."""

    def _render_traceback_(self) -> list[str]:
        return [f"{_RED}KeyboardInterrupt{_PLAIN}: {self}"]


class SandboxedCodeError(Exception):
    """Code in a sandbox failed; shown with the traceback from there."""

    traceback: str = ""

    def _render_traceback_(self) -> list[str]:
        return self.traceback.splitlines() or [f"{_RED}{type(self).__name__}{_PLAIN}: {self}"]


def sandboxed_error(name: str, value: str, traceback: str) -> SandboxedCodeError:
    """The exception for an error in the sandbox, of a class with the name of the one there."""
    shown = name if name.isidentifier() and len(name) < 80 else "SandboxedCodeError"
    error = type(shown, (SandboxedCodeError,), {})(one_line(value, 1000))
    error.traceback = clean(_shortened(traceback))[0]
    return error


@contextlib.contextmanager
def one_line_errors() -> Generator[None]:
    """Raise the errors of the client as ``MagicError``."""
    try:
        yield
    except SbxError as error:
        raise MagicError(one_line(error.message, 600)) from None


def _shortened(traceback: str) -> str:
    if len(traceback) <= _LONGEST_TRACEBACK:
        return traceback
    half = _LONGEST_TRACEBACK // 2
    return f"{traceback[:half]}\n[cut]\n{traceback[-half:]}"
