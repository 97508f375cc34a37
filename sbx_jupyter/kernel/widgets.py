"""Passes the widgets of a sandboxed kernel on in a form that only our front end draws.

Front ends load code that widgets name, in the page. So the comms of widgets travel as the data of
messages of one comm that no front end has opened, which all of them ignore, and their views have a
media type of ours. The JupyterLab extension draws them in frames with an opaque origin.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

TUNNEL: Final = "sbx-jupyter:widgets"
"""The id of the comm that carries the comms of widgets."""
VIEW: Final = "application/vnd.sbx.widget-view+json"
"""The media type of a widget's view: ``{"model_id"}``."""
COMMS: Final = ("comm_open", "comm_msg", "comm_close")

_TARGET: Final = "jupyter.widget"
_METHODS: Final = ("update", "echo_update", "custom")
_COMM_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)

Content = dict[str, Any]


def tunnelled(kind: str, content: Content) -> Content | None:
    """The content of the message that carries this one; ``None`` if it is not a widget's.

    It puts the fields of ``data`` that front ends and ``nbclient`` look for (``state``,
    ``buffer_paths``) one level deeper, so that none of them keeps the widget's state.
    """
    comm_id = content.get("comm_id")
    if not is_model_id(comm_id):
        return None
    inner: Content = {"kind": kind, "comm_id": comm_id}
    if kind != "comm_close":
        found = content.get("data")
        if not isinstance(found, dict):
            return None
        data = cast("Content", found)
        if kind == "comm_open" and content.get("target_name") != _TARGET:
            return None
        if kind == "comm_msg" and data.get("method") not in _METHODS:
            return None
        inner["message"] = data
    return {"comm_id": TUNNEL, "data": inner}


def is_model_id(value: Any) -> bool:
    """Whether this can be the id of a widget."""
    return isinstance(value, str) and _COMM_ID.fullmatch(value) is not None


def view(found: Any, text: str) -> Content:
    """The formats that show a widget: its id for our front end, and its text for all others."""
    model_id = cast("Content", found).get("model_id") if isinstance(found, dict) else None
    still: Content = {"text/plain": text or "[a widget]"}
    return still | ({VIEW: {"model_id": model_id}} if is_model_id(model_id) else {})
