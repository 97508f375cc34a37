"""Formatters of a Python kernel that show tables, figures, lists and dicts as data, too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

from sbx_jupyter.interpreter import charts
from sbx_jupyter.interpreter.plain_json import as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.formatters import DisplayFormatter

LARGEST_TABLE: Final = 1_000_000
"""Cells of a table that is still sent as data."""


class DataFormatter(BaseFormatter):
    """``e2b/data``: a table as one list per column."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict,)


class ChartFormatter(BaseFormatter):
    """``e2b/chart``: what a figure draws."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict,)

    def pop(self, typ: Any, default: Any = None) -> Any:
        """Keep what is registered: the inline backend clears figures off every formatter."""
        return default


class PlainJsonFormatter(BaseFormatter):
    """``e2b/json``: a list or dict whose content JSON can say."""

    format_type = Unicode("e2b/json")
    print_method = ObjectName("_repr_e2b_json_")
    _return_type = (list, dict)

    def __call__(self, obj: Any) -> Any:
        """The data, ``None`` for another object."""
        return as_json(cast("object", obj)) if isinstance(obj, list | dict) else None


def install(display: DisplayFormatter) -> None:
    """Add the formatters to a shell's own; nothing is imported until such an object is shown."""
    formatters: dict[str, BaseFormatter] = display.formatters
    formatters["e2b/json"] = PlainJsonFormatter(parent=display)
    data = formatters["e2b/data"] = DataFormatter(parent=display)
    _register(data, "pandas.core.frame", "DataFrame", table)
    # The module that pandas 3 says its frames come from.
    _register(data, "pandas", "DataFrame", table)
    chart = formatters["e2b/chart"] = ChartFormatter(parent=display)
    _register(chart, "matplotlib.figure", "Figure", charts.from_figure)


def _register(
    formatter: BaseFormatter, module: str, name: str, convert: Callable[[Any], object]
) -> None:
    formatter.for_type_by_name(module, name, convert)  # pyright: ignore[reportUnknownMemberType] - untyped there


def table(frame: Any) -> dict[str, list[Any]] | None:
    """A data frame as column lists of plain JSON values; ``None`` for one that is too large."""
    if frame.size > LARGEST_TABLE:
        return None
    return {
        str(name): [plain(value) for value in frame.iloc[:, position].tolist()]
        for position, name in enumerate(frame.columns)
    }


def plain(value: Any) -> Any:
    """Convert a table cell for JSON: missing values to ``None``, dates to ISO 8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value != value:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
