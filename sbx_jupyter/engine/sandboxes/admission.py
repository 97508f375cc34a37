"""Checks requests for new sandboxes before anything is made (interface 1.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from sbx_jupyter.engine.networks import check_network
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import DEFAULT_TIMEOUT, DEFAULT_TIMEOUT_V1

if TYPE_CHECKING:
    from sbx_jupyter.protocol.platform import NetworkConfig, NewSandbox

_MAX_TOKENS: Final = 5
_ENV_NAME: Final = re.compile(r"[^=\0]+\Z")
_HOUR: Final = 3600
_MIN_MEMORY: Final = 128
_MAX_MEMORY: Final = 1 << 20


def check_timeout(timeout: int, maximum: int) -> int:
    """Return ``timeout`` (seconds); raise ``InvalidArgumentError`` when it exceeds ``maximum``."""
    if timeout > maximum:
        hours = maximum // _HOUR if maximum % _HOUR == 0 else round(maximum / _HOUR, 2)
        raise InvalidArgumentError(f"Timeout cannot be greater than {hours} hours")
    return timeout


def check_memory(memory: int) -> None:
    """Raise ``InvalidArgumentError`` for an amount (MiB) that no sandbox can have."""
    if memory < _MIN_MEMORY:
        raise InvalidArgumentError(f"Memory must be at least {_MIN_MEMORY} MiB")
    if memory % 2:
        raise InvalidArgumentError("Memory must be divisible by 2")
    if memory > _MAX_MEMORY:
        raise InvalidArgumentError(f"Memory must be at most {_MAX_MEMORY} MiB")


def check_request(request: NewSandbox, *, version: int, max_timeout: int) -> int:
    """Raise ``InvalidArgumentError`` for an invalid request; return its timeout in seconds.

    Without a timeout in the request, the default of the API ``version`` applies.
    """
    default = DEFAULT_TIMEOUT if version >= 2 else DEFAULT_TIMEOUT_V1
    timeout = default if request.timeout is None else request.timeout
    if timeout <= 0:
        raise InvalidArgumentError("Timeout must be greater than 0")
    check_timeout(timeout, max_timeout)
    if request.memory_mb is not None:
        check_memory(request.memory_mb)
    _check_lifecycle(request)
    _check_envs(request.env_vars or {})
    if request.iam is not None:
        _check_identity(request.iam)
    return timeout


def is_secured(request: NewSandbox, version: int) -> bool:
    """Whether the sandbox gets an access token: always from version 2 on."""
    return version >= 2 or bool(request.secure)


def check_request_network(request: NewSandbox, *, secured: bool) -> NetworkConfig | None:
    """The network configuration to store; raises ``InvalidArgumentError``."""
    if request.network is None:
        return None
    if request.network.allow_public_traffic is False and not secured:
        raise InvalidArgumentError(
            "allowPublicTraffic can only be disabled for a secured sandbox; set secure to true"
        )
    # No access to the internet is the same as denying all traffic, so names may be allowed.
    access = request.allow_internet_access
    checked = check_network(replace(request.network, allow_internet_access=access))
    return replace(checked, allow_internet_access=None)


def _check_lifecycle(request: NewSandbox) -> None:
    resumes = request.auto_resume is not None and request.auto_resume.enabled
    if not request.auto_pause_memory and not request.auto_pause:
        raise InvalidArgumentError("autoPauseMemory: false needs autoPause: true")
    if not request.auto_pause_memory and resumes:
        raise InvalidArgumentError(
            "autoResume cannot be enabled with autoPauseMemory: false, a paused file system is "
            "not resumed by traffic"
        )


def _check_envs(envs: dict[str, str]) -> None:
    for name, value in envs.items():
        if not _ENV_NAME.match(name) or "\0" in value:
            raise InvalidArgumentError(f"envVars: '{name[:80]}' cannot be an environment variable")


def _check_identity(iam: dict[str, Any]) -> None:
    given = iam.get("tokens")
    if not isinstance(given, dict):
        raise InvalidArgumentError("iam: tokens must be an object")
    tokens = cast("dict[str, Any]", given)
    if len(tokens) > _MAX_TOKENS:
        raise InvalidArgumentError(f"iam: at most {_MAX_TOKENS} tokens are allowed")
    for name, token in tokens.items():
        fields = cast("dict[str, Any]", token) if isinstance(token, dict) else {}
        if not isinstance(fields.get("audience"), str):
            raise InvalidArgumentError(f"iam: token '{name}' needs an audience")
        if fields.get("tokenType") != "JWT-SVID":
            raise InvalidArgumentError(f"iam: tokenType of '{name}' must be JWT-SVID")
