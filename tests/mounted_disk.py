"""Mounts an image on an empty data directory, as root does by the command that a user gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sbx_jupyter.cli.storage import mount_apart, switch_quotas_on
from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from sbx_jupyter.cli.storage import Plan


def mount(plan: Plan) -> None:
    """Mount the image of a plan on its data directory; raises ``FailedPreconditionError``."""
    plan.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    image = os.open(plan.image, os.O_RDWR | os.O_CLOEXEC)
    try:
        tree = mount_apart(plan.image, plan.kind, image)
    finally:
        os.close(image)
    try:
        if plan.kind == "btrfs":
            switch_quotas_on(tree)
        syscalls.move_mount(tree, str(plan.data_dir))
    finally:
        os.close(tree)
    plan.data_dir.chmod(0o700)
