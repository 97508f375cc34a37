"""Lets the engines of one run of tests search the machine only once for what to hide.

The search takes most of an engine's start, and most tests start one. They still use the engine's
own layer: a copy of the one that the first engine with the same plan built.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbx_jupyter.isolation.zygote.client import start_zygote

if TYPE_CHECKING:
    from sbx_jupyter.isolation.root.stock_plan import StockPlan
    from sbx_jupyter.isolation.zygote.client import ZygoteProcess


class KnownStock:
    """The stock layers that were built, by what they were built of, as copies in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: list[tuple[object, str]] = []

    async def start_zygote(
        self,
        data_dir: Path,
        kind: str,
        plan: StockPlan,
        id_base: int,
        *,
        stock: Path | None = None,
        **options: Any,
    ) -> tuple[ZygoteProcess, Path]:
        """Like the engine's own, in whose place it is put; another process builds its own stock."""
        built_of = (kind, plan, id_base, options["own_ids"] is not None)
        known = next((name for each, name in self._built if each == built_of), None)
        if stock is None and known is not None:
            stock = data_dir / "stock" / known
            if not stock.exists():
                _copy(self._folder / known, stock)
        zygote, stock = await start_zygote(data_dir, kind, plan, id_base, stock=stock, **options)
        if known is None:
            if not (self._folder / stock.name).exists():
                _copy(stock, self._folder / stock.name)
            self._built.append((built_of, stock.name))
        return zygote, stock


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=source.parent.stat().st_mode & 0o777, parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", source, target], check=True)
