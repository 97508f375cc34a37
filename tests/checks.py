"""One way to check an error that came over HTTP."""

from __future__ import annotations

import httpx

JSON = "application/json"


def check_error(
    answer: httpx.Response,
    status: int,
    message: str = "",
    *,
    code: int | str | None = None,
    content_type: str = JSON,
) -> None:
    """Check the status, the code in the body (the status when not given) and part of the message.

    The platform API repeats the status as its code, the runtime API names a Connect code.
    """
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == content_type
    body = answer.json()
    assert body["code"] == (status if code is None else code)
    assert isinstance(body["message"], str)
    assert body["message"]
    assert message in body["message"]


def check_file_error(answer: httpx.Response, status: int, message: str = "") -> None:
    """As ``check_error``, of a transfer of files: a browser must not guess another type."""
    check_error(answer, status, message, content_type=f"{JSON}; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
