"""What is listed of the processes of an engine, here of this process with a zygote below it."""

from __future__ import annotations

import os

from sbx_jupyter.isolation.privileges import capability_names, privileges_below
from sbx_jupyter.isolation.zygote import namespaces

from .inside import Inside


def test_capabilities_have_names() -> None:
    assert capability_names(0) == ()
    assert capability_names(1 << 0 | 1 << 21 | 1 << 40) == (
        "chown", "sys_admin", "checkpoint_restore",
    )  # fmt: skip
    assert capability_names(1 << 50) == ("50",)


async def test_an_agent_has_few_capabilities_a_filter_and_namespaces(box: Inside) -> None:
    await box.start("sleep 60")

    found = privileges_below(os.getpid())

    # Other tests of this process may have sandboxes, too.
    (agent,) = [process for process in found if process.pid == box.cage.pid]
    (zygote,) = [process for process in found if process.pid == agent.parent]
    assert [found[0].role, zygote.role, agent.role] == ["engine", "zygote", "agent"]
    kept = capability_names(sum(1 << number for number in namespaces._KEPT_CAPABILITIES))
    assert agent.capabilities == agent.bounding == kept
    assert agent.filters == zygote.filters + 1
    if os.getuid() == 0:
        assert 0 not in agent.user_ids
        assert set(agent.namespaces) == {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}
    assert agent.to_json()["role"] == "agent"
