"""Engines in the test's own process that may have a helper of root, as the variable says."""

from __future__ import annotations

import os

import msgspec

from sbx_jupyter.engine.engine import Engine, EngineConfig, Helped
from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.isolation.privileged import account
from sbx_jupyter.isolation.privileged.helper_options import HelperOptions
from sbx_jupyter.isolation.privileged.supervisor import start_supervisor
from tests.engine_process import USER_ID


def engine_of(config: EngineConfig) -> Engine:
    """An engine of this process; with ``SBX_TEST_USER_ID`` it asks a helper for what needs root.

    The process itself stays root.
    """
    if USER_ID in (None, "0") or os.geteuid() != 0:
        return Engine(config)
    data_dir = DataDir(config.data_dir)
    data_dir.open()
    options = HelperOptions(
        data_dir=str(data_dir.path),
        isolation=config.isolation,
        owner=account.id_of(data_dir.path),
        connection_file=str(data_dir.path / "engine.json"),
        cpu_weight=config.cpu_weight,
        network=config.network,
        host_ids=f"{config.host_ids.first}-{config.host_ids.last}",
    )
    return Engine(config, Helped(data_dir, start_supervisor(msgspec.json.encode(options).decode())))
