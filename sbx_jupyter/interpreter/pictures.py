"""Shows pictures of Pillow when they are shown or saved, as clients of the interface expect."""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_MODULE: Final = "PIL.Image"
_OWN_CALLERS: Final = ("PIL", "matplotlib")
"""Packages that save pictures for themselves, on the way to something else."""


class PictureFinder(importlib.abc.MetaPathFinder):
    """Changes ``PIL.Image`` when the user's code imports it; nothing is imported before."""

    def __init__(self, display: Callable[[Any], object]) -> None:
        self._display = display

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._display)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, display: Callable[[Any], object]) -> None:
        self._loader = loader
        self._display = display

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        show_when_saved(module, self._display)


def install(display: Callable[[Any], object]) -> None:
    """Watch for the import of Pillow, if it was not imported before the kernel was forked."""
    if (imported := sys.modules.get(_MODULE)) is not None:
        show_when_saved(imported, display)
        return
    sys.meta_path.insert(0, PictureFinder(display))


def _is_called_by_a_package() -> bool:
    """Whether a package saves, not the user: looks at the caller of the caller."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name.partition(".")[0] in _OWN_CALLERS


def show_when_saved(module: Any, display: Callable[[Any], object]) -> None:
    """Let ``show`` display a picture, and ``save`` too when it writes to a named file."""
    save = module.Image.save

    def show(self: Any, *_: Any, **__: Any) -> None:
        display(self)

    def save_and_show(self: Any, fp: Any, *arguments: Any, **options: Any) -> None:
        save(self, fp, *arguments, **options)
        if isinstance(fp, str | os.PathLike) and not _is_called_by_a_package():
            display(self)

    module.Image.show = show
    module.Image.save = save_and_show
