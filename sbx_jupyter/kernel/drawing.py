"""Pages whose user let a sandboxed kernel draw in them, and what those pages get besides.

Such a page chooses a mark that nobody can guess, and gives it to this side for a few minutes at a
time. Results of the kernel are then also sent as they are, inside a format of ours, and its comms
are also sent as they are, each with the marks. A page draws only what has its own mark. So another
page, another user's or the same one loaded again, and a saved notebook stay as they were.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.kernel.widgets import is_model_id

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECT: Final = "application/vnd.sbx.direct+json"
"""The media type of what a kernel displays, as it is: ``{"marks", "data", "metadata"}``."""
MARKS: Final = "sbx_jupyter_marks"
"""The member of a comm message's metadata that holds the marks."""
WIDGET: Final = "application/vnd.jupyter.widget-view+json"
MAX_SECONDS: Final = 600
MAX_PAGES: Final = 8

_MARK: Final = re.compile(r"[A-Za-z0-9-]{16,64}", re.ASCII)
_MAX_COMMS: Final = 10_000
_OURS: Final = "sbx-jupyter:"

Content = dict[str, Any]


class PageDrawing:
    """The marks of the pages in which one kernel may draw."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, float] = {}
        self._opened: OrderedDict[str, None] = OrderedDict()

    def allow(self, mark: str, seconds: int) -> None:
        """Let a page draw for some seconds from now; 0 ends it.

        Raises ``InvalidArgumentError`` for another mark or time than pages give, or too many.
        """
        if _MARK.fullmatch(mark) is None:
            raise InvalidArgumentError("'mark' must be 16 to 64 letters, digits and hyphens")
        if not 0 <= seconds <= MAX_SECONDS:
            raise InvalidArgumentError(f"'seconds' must be between 0 and {MAX_SECONDS}")
        others = {each: self._until[each] for each in self.marks() if each != mark}
        if seconds and len(others) >= MAX_PAGES:
            raise InvalidArgumentError(f"the kernel draws in {MAX_PAGES} pages already")
        if seconds:
            others[mark] = self._now() + seconds
        self._until = others

    def marks(self) -> list[str]:
        """The marks of now. Messages are checked in other threads, which call this too."""
        now = self._now()
        return [mark for mark, end in self._until.items() if end > now]

    def direct(self, bundle: Content, safe: Content, metadata: Any) -> Content:
        """Fields to add to the safe formats of a result; empty where these are all of it."""
        marks = self.marks()
        if not marks or bundle == safe:
            return {}
        view = bundle.get(WIDGET)
        if isinstance(view, dict):
            model_id = cast("Content", view).get("model_id")
            if not is_model_id(model_id) or model_id not in self._opened:
                return {}  # its page does not know the widget; the frame does
        return {DIRECT: {"marks": marks, "data": bundle, "metadata": metadata}}

    def comm(self, kind: str, content: Content) -> Content | None:
        """The metadata with which a comm message is sent as it is; ``None`` if it is not."""
        marks = self.marks()
        comm_id = content.get("comm_id")
        if not marks or not isinstance(comm_id, str) or comm_id.startswith(_OURS):
            return None
        if kind == "comm_open" and is_model_id(comm_id):
            self._opened[comm_id] = None
            if len(self._opened) > _MAX_COMMS:
                self._opened.popitem(last=False)
        return {MARKS: marks}
