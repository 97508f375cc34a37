"""Selects and orders the sandboxes of a list (interface 1.3, S3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sbx_jupyter.engine import pages
from sbx_jupyter.engine.owners import may_use
from sbx_jupyter.engine.pages import MAX_PAGE, Order

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from sbx_jupyter.engine.state.rows import SandboxRow


@dataclass(frozen=True, slots=True)
class SandboxFilter:
    """Selects the sandboxes of a list; a ``limit`` of ``None`` is for version 1, without pages."""

    states: frozenset[Literal["running", "paused"]] = frozenset({"running", "paused"})
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    template: str | None = None
    started_after: dt.datetime | None = None
    order: Order = "desc"
    limit: int | None = MAX_PAGE
    next_token: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page, the token of the next one, and how many running sandboxes match the filter.

    ``next_token`` is ``None`` on the last page.
    """

    sandboxes: list[SandboxRow]
    next_token: str | None
    total_running: int


def select(
    rows: Iterable[SandboxRow], wanted: SandboxFilter, template_id: str | None = None
) -> Page:
    """The page of ``rows`` that a filter selects, of those that the caller may use.

    ``template_id`` is the filter's template, resolved.

    Raises ``InvalidArgumentError`` for a bad cursor or limit.
    """
    found = [row for row in rows if _matches(row, wanted, template_id)]
    total = sum(row.state.reported == "running" for row in found)
    page, token = pages.cut(
        found,
        lambda row: (row.started_at, row.sandbox_id),
        limit=wanted.limit,
        token=wanted.next_token,
        order=wanted.order,
    )
    return Page(page, token, total)


def _matches(row: SandboxRow, wanted: SandboxFilter, template_id: str | None) -> bool:
    return (
        row.state.is_shown
        and may_use(row.owner)
        and row.state.reported in wanted.states
        and (template_id is None or row.template_id == template_id)
        and (wanted.started_after is None or row.started_at >= wanted.started_after)
        and wanted.metadata.items() <= row.metadata.items()
    )
