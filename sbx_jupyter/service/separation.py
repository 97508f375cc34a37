"""Gives up root's privileges before the engine serves anybody, and keeps a helper that has them."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import tornado

import sbx_jupyter
from sbx_jupyter.errors import FailedPreconditionError, IsolationError
from sbx_jupyter.isolation.kernel.cgroups import control_groups_of
from sbx_jupyter.isolation.privileged import account, view
from sbx_jupyter.isolation.privileged.helper_options import HelperOptions
from sbx_jupyter.isolation.privileged.supervisor import start_supervisor

if TYPE_CHECKING:
    from sbx_jupyter.engine.engine import Helped

_log = logging.getLogger("sbx_jupyter.service")

AS_ROOT: Final = 0
_DERIVED: Final = -1


@dataclass(frozen=True, slots=True)
class Separation:
    """The settings that decide who serves clients."""

    data_dir: Path
    connection_file: Path
    isolation: str
    network: str
    user_id: int
    cpu_weight: int
    host_ids: str

    @property
    def owner(self) -> int:
        """The user id that serves clients."""
        return account.id_of(self.data_dir) if self.user_id == _DERIVED else self.user_id


def give_up_privileges(settings: Separation) -> Helped | None:
    """Become the engine's own user where root started it, with a helper for what needs root.

    There must be one thread. Returns ``None``, with a line in the log, where the process stays what
    it is. Raises ``IsolationError`` when only half of it could be done, and ``OSError``.
    """
    from sbx_jupyter.engine.engine import Helped
    from sbx_jupyter.engine.state.datadir import DataDir

    if os.geteuid() != 0 or settings.user_id == AS_ROOT:
        return None
    if (reason := _why_not(settings)) is not None:
        _log.warning("clients are served as root: %s", reason)
        return None
    data_dir = DataDir(settings.data_dir)
    is_done = account.is_taken_over(data_dir.path, settings.owner)
    data_dir.open(keeps_owners=is_done)
    account.take_over(data_dir.path, settings.owner, is_done=is_done)
    # While this process is alone in its group, which can then hand controllers down.
    control_groups_of(data_dir.path, settings.cpu_weight).prepare()
    options = HelperOptions(
        data_dir=str(data_dir.path),
        isolation=settings.isolation,
        owner=settings.owner,
        connection_file=str(settings.connection_file),
        cpu_weight=settings.cpu_weight,
        host_ids=settings.host_ids,
        network=settings.network,
    )
    supervisor = start_supervisor(msgspec.json.encode(options).decode())
    try:
        view.open_way([data_dir.path, *_program()])
        account.become(settings.owner)
    except OSError as error:
        raise IsolationError(f"the privileges of root cannot be given up: {error}") from error
    return Helped(data_dir, supervisor)


def _why_not(settings: Separation) -> str | None:
    if settings.isolation == "none":
        return "without isolation, programs of sandboxes are root's"
    owner = settings.owner
    reason = account.why_not(owner) or account.why_not_in(settings.data_dir, owner)
    if reason is not None:
        if settings.user_id != _DERIVED:
            raise FailedPreconditionError(f"the engine cannot serve as {owner}: {reason}")
        return reason
    closed = view.unreadable(_samples())
    return None if closed is None else f"only root can read {closed}, which the engine needs"


def _program() -> list[Path]:
    """The directories that contain the engine's modules."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
    return [Path(folder) for folder in folders if folder and Path(folder).is_absolute()]


def _samples() -> list[Path]:
    """Some modules of each kind: if other users can read them, they can read the rest too."""
    modules = (os, logging, msgspec, tornado, sbx_jupyter)
    files = [Path(module.__file__) for module in modules if module.__file__ is not None]
    return [path for file in files for path in (file.parent, file)]
