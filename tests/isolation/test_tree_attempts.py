"""How often work on trees begins again when the zygote is killed over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.channel import Reply
from sbx_jupyter.isolation.tree_operations import TreeOperations
from sbx_jupyter.isolation.zygote.client import ZygoteProcess


class Killed:
    """A zygote that is killed over each request."""

    alive = False
    requests = 0

    async def call(self, op: str, **fields: Any) -> Reply:
        self.requests += 1
        raise UnavailableError("the sandbox is gone")


@pytest.mark.parametrize(("op", "requests"), [("measure", 2), ("remove", 8)])
async def test_work_is_given_up_when_each_zygote_is_killed(
    tmp_path: Path, op: str, requests: int
) -> None:
    zygote = Killed()

    async def live() -> ZygoteProcess:
        return cast("ZygoteProcess", zygote)

    with pytest.raises(UnavailableError):
        await getattr(TreeOperations(tmp_path, live), op)(tmp_path / "tree")
    assert zygote.requests == requests
