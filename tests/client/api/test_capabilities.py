"""What a deployment can do, told from its answers."""

from __future__ import annotations

import re

import httpx
import pytest

from sbx_jupyter.client.api.capabilities import explain_versions, find_capabilities
from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.errors import UnauthenticatedError
from tests.waiting import PATIENCE


class Deployment(httpx.AsyncBaseTransport):
    """Another implementation of the interface, which has some routes only."""

    def __init__(self, *routes, unknown):
        self.routes = [re.compile(route + r"\Z") for route in routes]
        self.unknown = unknown

    async def handle_async_request(self, request):
        path = request.url.path
        call = f"{request.method} {path}"
        if not any(route.match(call) for route in self.routes):
            return self.unknown(path)
        if (sandbox := re.match("(?:/v2)?/sandboxes/([^/]+)", path)) is not None:
            message = f"Sandbox \"{sandbox[1]}\" doesn't exist or you don't have access to it"
            return httpx.Response(404, json={"code": 404, "message": message})
        return httpx.Response(200, json=[])


async def ask(deployment):
    platform = PlatformClient(ConnectionConfig("http://127.0.0.1:1", "e2b_00"))
    # The one seam of the client: its pool of connections.
    platform.transport._clients[True, True] = httpx.AsyncClient(
        transport=deployment, timeout=PATIENCE
    )
    async with platform:
        return await find_capabilities(platform)


BASIC = ("GET /v2/sandboxes", "GET /templates")
WHOLE = (
    *BASIC,
    "GET /snapshots",
    "POST /sandboxes/[^/]+/(fork|pause)",
    "GET /sandboxes/[^/]+/metrics",
    "GET /v2/sandboxes/[^/]+/logs",
    "GET /volumes",
    "GET /secrets",
)
BARE = [
    lambda path: httpx.Response(404, text="404 page not found"),
    lambda path: httpx.Response(404, json={"code": 404, "message": "no such route"}),
    lambda path: httpx.Response(404, json={"code": 404, "message": f"nothing at {path}"}),
    lambda path: httpx.Response(405, text=""),
]


@pytest.mark.parametrize("unknown", BARE)
async def test_a_deployment_without_the_optional_routes_is_told_apart(unknown):
    found = await ask(Deployment(*BASIC, unknown=unknown))

    assert {"snapshots", "fork", "pause", "history", "logs", "volumes", "secrets"} <= set(
        found.missing
    )
    assert "templates" not in found.missing
    assert found.version is None


@pytest.mark.parametrize("unknown", BARE)
async def test_a_deployment_with_every_route_lacks_only_what_is_ours(unknown):
    found = await ask(Deployment(*WHOLE, unknown=unknown))

    assert set(found.missing) == {
        "rename",
        "operations",
        "diff",
        "disk",
        "processes",
        "ports",
        "catalogue",
    }


async def test_our_engine_lacks_nothing_and_has_a_version(platform):
    found = await find_capabilities(platform)

    assert (found.missing, bool(found.version)) == ({}, True)


async def test_a_refused_key_is_told(shared_engine):
    url = shared_engine.connection.url
    async with PlatformClient(ConnectionConfig(url, "e2b_" + "0" * 40)) as platform:
        with pytest.raises(UnauthenticatedError):
            await find_capabilities(platform)


@pytest.mark.parametrize(
    ("client", "engine", "fits"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0", "0.2.0", False),
        ("1.4.0", "1.9.2", True),
        ("1.4.0", "2.0.0", False),
        ("0.1.0", None, True),
        ("0+checkout", "0.1.0", True),
        ("0.1.0", "nightly", True),
    ],
)
def test_versions_fit_as_semantic_versioning_says(client, engine, fits):
    said = explain_versions(client, engine)

    assert (said is None) == fits
    assert fits or (str(engine) in str(said) and client in str(said))
