"""What is the same for every sandbox is worked out once, by the process that they are forks of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sbx_jupyter.isolation.kernel import seccomp
from sbx_jupyter.isolation.zygote import namespaces
from sbx_jupyter.isolation.zygote.order import Order

ORDER = Order(
    sandbox_id="i" + "a" * 20,
    layers=(),
    host_base=True,
    writable="",
    volumes=(),
    shown=(),
    processes=0,
    memory_mb=0,
    open_files=0,
    disk_mb=0,
    limit_memory=False,
    limit_processes=False,
    processors=(),
    real_users=True,
    machine_root=False,
    confine=False,
    landlock_abi=0,
    loopback=False,
    tap=False,
    without=(),
)


@pytest.mark.parametrize("real_users", [True, False])
@pytest.mark.parametrize("processors", [(), (0,)])
def test_the_filter_of_a_sandbox_is_built_before_it(
    real_users: bool, processors: tuple[int, ...]
) -> None:
    order = replace(ORDER, real_users=real_users, processors=processors)
    expected = seccomp.build(virtual_users=not real_users, hold_processors=bool(processors))
    seccomp.build.cache_clear()

    namespaces.prepare(virtual_users=not real_users)
    built = seccomp.build.cache_info().misses

    assert namespaces.filter_of(order) == expected
    assert seccomp.build.cache_info().misses == built
