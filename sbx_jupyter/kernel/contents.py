"""Filters the content of each message of a sandboxed kernel.

The whole of what such a kernel may send is listed here, by channel and type. What is kept can do no
harm in a page that trusts it, and has the types that front ends rely on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.display.bundle import cut_text, safe_bundle
from sbx_jupyter.display.text import clean
from sbx_jupyter.kernel import widgets
from sbx_jupyter.kernel.drawing import WIDGET
from sbx_jupyter.kernel.guest.frames import CUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Content = dict[str, Any]

_FIELDS: Final = {
    "text/plain": "text",
    "text/html": "html",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/svg+xml": "svg",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "text/javascript": "javascript",
    "application/pdf": "pdf",
}
_SIZES: Final = ("width", "height")
_LANGUAGE: Final = (
    "name", "version", "mimetype", "file_extension", "pygments_lexer", "codemirror_mode",
)  # fmt: skip
_NAME: Final = re.compile(r"[\w .+#/-]{1,100}")
_MAX_MEMBERS: Final = 10
_MAX_PROMPT: Final = 10_000
_MOST_CUT: Final = 1 << 50


def _whole(content: Content) -> Content:
    return content


def display(content: Content) -> Content | None:
    """A result with the formats that cannot act in the page; ``None`` for a malformed one."""
    data = content.get("data")
    if not isinstance(data, dict):
        return None
    bundle = cast("dict[str, Any]", data)
    transient = content.get("transient")
    shown: Content = {"data": _safe(bundle), "metadata": _sizes(bundle, content.get("metadata"))}
    if isinstance(transient, dict):
        display_id = cast("dict[str, Any]", transient).get("display_id")
        shown["transient"] = {"display_id": str(display_id)} if display_id else {}
    if "execution_count" in content:
        count = content["execution_count"]
        shown["execution_count"] = count if isinstance(count, int) else None
    return shown


def _safe(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """The formats of a result that cannot act in the page."""
    if WIDGET in bundle:
        return widgets.view(bundle[WIDGET], _plain(bundle).get("text/plain", ""))
    fields: dict[str, Any] = {"extra": {}}
    for kind, value in bundle.items():
        if (name := _FIELDS.get(kind)) is None:
            fields["extra"][kind] = value
        else:
            fields[name] = value if name == "json" else _text(value)
    return safe_bundle(fields)


def _text(value: Any) -> str:
    """A text, which the protocol also allows as a list of lines."""
    return "".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


def _sizes(bundle: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    """The width and height that pictures should be drawn with."""
    kept: dict[str, Any] = {}
    if isinstance(metadata, dict):
        for kind in ("image/png", "image/jpeg"):
            asked = cast("dict[str, Any]", metadata).get(kind)
            if kind in bundle and isinstance(asked, dict):
                sizes = cast("dict[str, Any]", asked)
                kept[kind] = {n: sizes[n] for n in _SIZES if isinstance(sizes.get(n), int | float)}
    return kept


def _stream(content: Content) -> Content:
    # Programs that run notebooks stop at a message that lacks these, or has others.
    name = "stderr" if content.get("name") == "stderr" else "stdout"
    return {"name": name, "text": _text(content.get("text", ""))}


def _error(content: Content) -> Content:
    lines = content.get("traceback")
    text = "\n".join(map(str, cast("list[Any]", lines))) if isinstance(lines, list) else ""
    name, value = (cut_text(str(content.get(field, ""))) for field in ("ename", "evalue"))
    return {"ename": name, "evalue": value, "traceback": cut_text(text).split("\n")}


def _status(content: Content) -> Content | None:
    state = content.get("execution_state")
    return {"execution_state": state} if state in ("busy", "idle", "starting") else None


def _input(content: Content) -> Content:
    count = content.get("execution_count")
    code = _text(content.get("code", ""))
    return {"code": code, "execution_count": count if isinstance(count, int) else 0}


def _clear(content: Content) -> Content:
    return {"wait": content.get("wait") is True}


def _cut(content: Content) -> Content | None:
    size = content.get("size")
    return {"size": size} if isinstance(size, int) and 0 < size < _MOST_CUT else None


def _inspection(content: Content) -> Content:
    # The page shows help as trusted HTML, so only its text is passed on.
    return content | {"data": _plain(content.get("data")), "metadata": {}}


def _plain(data: Any) -> dict[str, str]:
    text = cast("dict[str, Any]", data).get("text/plain") if isinstance(data, dict) else None
    return {} if text is None else {"text/plain": cut_text(_text(text))}


def _reply(content: Content) -> Content:
    payload = content.get("payload")
    entries = cast("list[Any]", payload) if isinstance(payload, list) else []
    kept = content | {"payload": [found for entry in entries if (found := _payload(entry))]}
    if content.get("status") not in ("ok", "error", "aborted"):
        kept["status"] = "error"
    expressions = content.get("user_expressions")
    if isinstance(expressions, dict):
        values = cast("dict[str, Any]", expressions)
        kept["user_expressions"] = {name: _expression(value) for name, value in values.items()}
    return kept


def _payload(entry: Any) -> Content | None:
    if not isinstance(entry, dict):
        return None
    found = cast("Content", entry)
    if found.get("source") == "page":
        return {"source": "page", "start": 0, "data": _plain(found.get("data"))}
    if found.get("source") == "set_next_input":
        # Text for a cell, which runs in this sandbox if somebody runs it.
        text, _ = clean(_text(found.get("text")))
        replaces = found.get("replace") is True
        return {"source": "set_next_input", "text": cut_text(text), "replace": replaces}
    return None


def _expression(value: Any) -> Content:
    if not isinstance(value, dict):
        return {}
    found = cast("Content", value)
    return found | {"data": _plain(found.get("data")), "metadata": {}}


def _question(content: Content) -> Content:
    prompt, _ = clean(_text(content.get("prompt", "")))
    return {"prompt": prompt[:_MAX_PROMPT], "password": content.get("password") is True}


def _completions(content: Content) -> Content:
    return content | {"metadata": {}}


def _kernel_info(content: Content) -> Content:
    # The page puts these links into its menu.
    kept: Content = content | {"help_links": []}
    language = content.get("language_info")
    if isinstance(language, dict):
        # Notebooks keep these fields. By one that is left out, nbconvert would import a module, and
        # others it writes into pages as they are.
        fields = cast("Content", language)
        kept["language_info"] = {
            name: fields[name] for name in _LANGUAGE if _is_name(fields.get(name))
        }
    return kept


def _is_name(value: Any) -> bool:
    """Whether this is a short text without markup, a number, or an object of such."""
    if isinstance(value, dict):
        members = cast("Content", value)
        return len(members) <= _MAX_MEMBERS and all(
            _NAME.fullmatch(name) and not isinstance(each, dict) and _is_name(each)
            for name, each in members.items()
        )
    return isinstance(value, int) or (isinstance(value, str) and _NAME.fullmatch(value) is not None)


def _debugged(content: Content) -> Content:
    # The debugger draws a variable as a result that is trusted.
    found = content.get("body")
    if not isinstance(found, dict) or "data" not in found:
        return content
    body = cast("Content", found)
    data = body["data"]
    drawn = _safe(cast("Content", data)) if isinstance(data, dict) else {}
    return content | {"body": body | {"data": drawn, "metadata": {}}}


def _no_comms(content: Content) -> Content:
    return {"status": "ok", "comms": {}}


_IOPUB: Final[dict[str, Callable[[Content], Content | None]]] = {
    "status": _status,
    "stream": _stream,
    "error": _error,
    "execute_input": _input,
    "clear_output": _clear,
    CUT: _cut,
    "debug_event": _whole,
    "display_data": display,
    "update_display_data": display,
    "execute_result": display,
}
_SHELL: Final[dict[str, Callable[[Content], Content | None]]] = {
    "execute_reply": _reply,
    "inspect_reply": _inspection,
    "complete_reply": _completions,
    "is_complete_reply": _whole,
    "history_reply": _whole,
    "kernel_info_reply": _kernel_info,
    "comm_info_reply": _no_comms,
    "connect_reply": _whole,
}
_CONTROL: Final[dict[str, Callable[[Content], Content | None]]] = {
    "kernel_info_reply": _kernel_info,
    "interrupt_reply": _whole,
    "shutdown_reply": _whole,
    "debug_reply": _debugged,
    "create_subshell_reply": _whole,
    "delete_subshell_reply": _whole,
    "list_subshell_reply": _whole,
}
KEPT: Final = {
    "iopub": _IOPUB,
    "shell": _SHELL,
    "control": _CONTROL,
    "stdin": {"input_request": _question},
}
"""The filter of the content by channel and type. Unknown types are not passed on."""
