"""``Git`` for blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.client.blocking import blocking
from sbx_jupyter.client.git.git import Git

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.client.blocking import Portal


class SyncGit:
    """Git in one sandbox; like ``Git``, but its methods block."""

    def __init__(self, connected: Callable[[], tuple[Portal, Git]]) -> None:
        self._connected = connected

    init = blocking(Git.init)
    clone = blocking(Git.clone)
    status = blocking(Git.status)
    branches = blocking(Git.branches)
    create_branch = blocking(Git.create_branch)
    checkout_branch = blocking(Git.checkout_branch)
    delete_branch = blocking(Git.delete_branch)
    add = blocking(Git.add)
    commit = blocking(Git.commit)
    reset = blocking(Git.reset)
    restore = blocking(Git.restore)
    push = blocking(Git.push)
    pull = blocking(Git.pull)
    remote_add = blocking(Git.remote_add)
    remote_get = blocking(Git.remote_get)
    set_config = blocking(Git.set_config)
    get_config = blocking(Git.get_config)
    configure_user = blocking(Git.configure_user)
    dangerously_authenticate = blocking(Git.dangerously_authenticate)
