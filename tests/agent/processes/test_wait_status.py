"""Whatever the kernel says of a child, the agent goes on."""

from __future__ import annotations

import os

from sbx_jupyter.agent.processes.spawn import exit_code


def test_every_wait_status_is_an_exit_code_or_a_child_that_goes_on() -> None:
    codes = [exit_code(status) for status in range(1 << 16)]
    for status, code in enumerate(codes):
        ended = os.WIFEXITED(status) or os.WIFSIGNALED(status)
        assert (code is not None) == ended, status
    assert {code for code in codes if code is not None} >= {*range(256), *range(-64, 0)}
