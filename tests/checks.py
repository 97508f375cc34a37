"""Checks error answers of the HTTP APIs."""

from __future__ import annotations

import httpx

JSON = "application/json"
JSON_UTF8 = f"{JSON}; charset=utf-8"


def check_error(
    answer: httpx.Response,
    status: int,
    message: str = "",
    *,
    code: int | str | None = None,
    content_type: str = JSON,
) -> None:
    """Check the status, the code in the body (default: the status) and a part of the message.

    The code is the status in the platform API, and a Connect code in the runtime API.
    """
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == content_type
    body = answer.json()
    assert body["code"] == (status if code is None else code)
    assert isinstance(body["message"], str)
    assert body["message"]
    assert message in body["message"]


def check_gateway_error(answer: httpx.Response, status: int, message: str = "") -> None:
    """Like ``check_error`` for answers of the gateway itself, and of routes without a codec."""
    check_error(answer, status, message, content_type=JSON_UTF8)


def check_file_error(answer: httpx.Response, status: int, message: str = "") -> None:
    """Like ``check_error`` for file routes, whose answers forbid browsers to guess the type."""
    check_gateway_error(answer, status, message)
    assert answer.headers["x-content-type-options"] == "nosniff"
