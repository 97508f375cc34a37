"""How failures of connections are told."""

from __future__ import annotations

import httpx
import pytest

from sbx_jupyter.client.api.transport import translated_errors
from sbx_jupyter.errors import UnavailableError


def test_a_broken_connection_says_what_happened_also_where_the_error_has_no_text():
    with (
        pytest.raises(UnavailableError, match="the connection broke: ReadError"),
        translated_errors(),
    ):
        raise httpx.ReadError("")
