"""The environment variables with which any client of the interface uses a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.client.connection import tls
from sbx_jupyter.client.connection.config import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.client.connection.config import ConnectionConfig

NAMES: Final = (
    "E2B_API_URL",
    "E2B_SANDBOX_URL",
    "E2B_VOLUME_API_URL",
    "E2B_API_KEY",
    "E2B_DOMAIN",
)
"""The variables that public clients read. Setting any of them chooses a deployment."""

PORT_URL_VARIABLE: Final = "SBX_PORT_URL"
"""Names the base of the addresses at which the user's browser finds ports of sandboxes:
``<this><sandbox id>/<port>/``.

The extension of a Jupyter server sets it for kernels: the server's address, or only the path on it
where nobody has configured under which host name the browser sees the server.
"""

_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", ".localhost")


def client_environment(config: ConnectionConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead clients to the deployment of ``config``.

    For a deployment on this machine they also keep requests away from the proxy that
    ``environment`` may name, and ``E2B_DOMAIN`` gives names below ``localhost``, which browsers
    and some resolvers look for on this machine.
    """
    variables = {"E2B_API_URL": config.api_url, "E2B_API_KEY": config.api_key}
    parts = urlsplit(config.api_url)
    local = is_loopback(parts.hostname or "")
    if (sandbox_url := config.sandbox_url) is not None:
        variables["E2B_SANDBOX_URL"] = sandbox_url
    if config.domain is not None:
        variables["E2B_DOMAIN"] = config.domain
    elif local:
        variables["E2B_DOMAIN"] = f"localhost:{parts.port}" if parts.port else "localhost"
    if local:
        variables["E2B_VOLUME_API_URL"] = config.api_url
        no_proxy = [part for part in environment.get("NO_PROXY", "").split(",") if part]
        no_proxy += [name for name in _LOCAL_NAMES if name not in no_proxy]
        variables["NO_PROXY"] = variables["no_proxy"] = ",".join(no_proxy)
    if config.ca_file is not None:
        variables[tls.CA_FILE_VARIABLE] = config.ca_file
    return variables
