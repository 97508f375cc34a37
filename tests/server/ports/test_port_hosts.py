"""Ports of a sandbox at host names of their own: who gets in, what passes, what stays outside."""

from __future__ import annotations

import re

import httpx
import pytest
import pytest_asyncio
from jupyter_server.auth import User
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.websocket import websocket_connect
from traitlets import TraitError

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.access import Route
from sbx_jupyter.server.extension import SbxExtension
from sbx_jupyter.server.ports.grants import IDLE_SECONDS, LONGEST_SECONDS, Grants
from sbx_jupyter.server.ports.host_headers import for_browser_at_host, for_sandbox_at_host
from sbx_jupyter.server.ports.hosts import PortHosts
from sbx_jupyter.server.ports.one_time_tokens import TOKEN_SECONDS, OneTimeTokens
from tests.server.ports.programs import PORT

PATTERN = "{port}-{id}.localhost"
ANN = User(username="ann")


@pytest.fixture
def extension_settings(extension_settings):
    return {**extension_settings, "port_hosts": PATTERN}


@pytest.fixture
def host(sandbox, jp_http_port):
    return f"{PORT}-{sandbox}.localhost:{jp_http_port}"


@pytest_asyncio.fixture
async def anybody(jp_http_port, host):
    """A client at the name of the port, without a cookie."""
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{jp_http_port}", headers={"Host": host}, timeout=60
    ) as client:
        yield client


@pytest_asyncio.fixture
async def entry(browser, jp_base_url, sandbox):
    """Where a browser that is signed in to Jupyter is sent, without its scheme and host."""
    answer = await browser.get(f"{jp_base_url}sbx/port/{sandbox}/{PORT}//a/b?c=d")
    assert answer.status_code == 302, answer.text
    return httpx.URL(answer.headers["Location"])


@pytest_asyncio.fixture
async def page(anybody, entry, host):
    """A client that was let in."""
    assert str(entry).startswith(f"http://{host}/~sbx-enter/")
    entered = await anybody.get(entry.path)
    assert entered.status_code == 302, entered.text
    assert entered.headers["Location"] == f"http://{host}//a/b?c=d"
    anybody.headers["Cookie"] = entered.headers["Set-Cookie"].partition(";")[0]
    return anybody


@pytest.mark.parametrize("jp_base_url", ["/", "/user/a%40b/"])
async def test_a_login_leads_to_the_name_of_the_port(program, page, anybody, entry, host):
    told = (
        await page.get(
            "/some/path?token=app&_xsrf=app", headers={"Cookie": f"a=b; {page.headers['Cookie']}"}
        )
    ).json()
    names = {name.lower(): value for name, value in told["headers"]}

    assert told["path"] == "/some/path?token=app&_xsrf=app"
    assert names["cookie"] == "a=b"
    assert names["host"] == f"localhost:{PORT}"
    assert names["x-forwarded-host"] == host
    assert "x-forwarded-prefix" not in names
    again = await anybody.get(entry.path, headers={"Cookie": ""})
    assert again.status_code == 403


async def test_nothing_of_jupyter_is_served_there(
    with_engine, anybody, jp_base_url, jp_auth_header
):
    for path in ("api/status", "login", "static/favicon.ico", "sbx/api/info", "lab", ""):
        answer = await anybody.get(jp_base_url + path, headers=jp_auth_header)
        assert (answer.status_code, answer.json()["code"]) == (403, 403)
        assert "set-cookie" not in answer.headers


async def test_a_cookie_is_for_one_port_of_one_sandbox(program, page, host, jp_http_port):
    for other in (
        host.replace("8000-", "8001-"),
        f"8000-{'i' + '0' * 20}.localhost:{jp_http_port}",
    ):
        assert (await page.get("/", headers={"Host": other})).status_code == 403
    assert (
        await page.get("/", headers={"Host": host.replace("8000-", "49983-")})
    ).status_code == 403
    assert (await page.get("/", headers={"Cookie": "sbx-port=" + "A" * 32})).status_code == 403


async def test_a_cookie_that_a_neighbour_set_does_not_lock_the_user_out(program, page):
    tossed = f"sbx-port={'A' * 32}; {page.headers['Cookie']}"

    assert (await page.get("/", headers={"Cookie": tossed})).status_code == 200


async def test_pages_of_other_origins_are_refused(program, page, host):
    assert (await page.get("/")).status_code == 200  # waits until the program listens
    for origin in ("https://elsewhere.invalid", "null", "http://localhost"):
        assert (await page.post("/", headers={"Origin": origin})).status_code == 403
    assert (await page.post("/", headers={"Origin": f"http://{host}"})).status_code == 200


async def test_pages_of_neighbours_fetch_nothing_and_may_lead_there(program, page):
    def fetched(site, mode, dest):
        fields = {"Site": site, "Mode": mode, "Dest": dest}
        return {f"Sec-Fetch-{name}": value for name, value in fields.items()}

    for site in ("same-site", "cross-site"):
        for kind in (("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe")):
            assert (await page.get("/", headers=fetched(site, *kind))).status_code == 403
        visit = fetched(site, "navigate", "document")
        assert (await page.get("/", headers=visit)).status_code == 200
        assert (await page.post("/", headers=visit)).status_code == 403
    own = fetched("same-origin", "no-cors", "script")
    assert (await page.get("/", headers=own)).status_code == 200


async def test_a_socket_passes_with_the_cookie_alone(program, page, host, jp_http_port):
    def connect(**headers):
        url = f"ws://127.0.0.1:{jp_http_port}/socket"
        return websocket_connect(HTTPRequest(url, headers={"Host": host, **headers}))

    socket = await connect(Origin=f"http://{host}", Cookie=page.headers["Cookie"])
    await socket.write_message("origin?")
    assert await socket.read_message() == f"http://localhost:{PORT}"
    socket.close()
    with pytest.raises(HTTPClientError) as refused:
        await connect(Origin="https://elsewhere.invalid", Cookie=page.headers["Cookie"])
    assert refused.value.code == 403


async def test_the_page_has_its_cookies_and_no_policy_of_ours(program, page, host):
    answer = await page.get("/hostile")

    assert answer.headers["Set-Cookie"] == "username-localhost-8888=stolen; Path=/"
    assert answer.headers["Content-Security-Policy"] == "default-src *"
    assert {"clear-site-data", "strict-transport-security"}.isdisjoint(answer.headers)
    moved = await page.get(f"/redirect?http://localhost:{PORT}//evil.invalid/x")
    assert moved.headers["Location"] == "/evil.invalid/x"


async def test_the_mode_in_force_is_said(api):
    _, info = await api("GET", "info")

    assert info["ports"] == {"mode": "host", "hosts": PATTERN}


async def test_names_that_share_a_domain_with_jupyter_are_not_used(
    program, browser, jp_base_url, sandbox, jp_serverapp, jp_http_port
):
    ports = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app.ports
    ports.hosts = PortHosts("{port}-{id}.apps.example.org")
    url = f"{jp_base_url}sbx/port/{sandbox}/{PORT}/"

    assert ports.hosts_for("jupyter.example.net") is ports.hosts
    assert ports.hosts_for("hub.example.org:8000") is None
    beside = await browser.get(url)
    assert beside.headers["Location"].startswith("http://8000-")


def test_a_cookie_of_the_program_is_for_its_name_alone():
    given = [
        ("Set-Cookie", "a=b; Domain=localhost; Path=/; HttpOnly"),
        ("Set-Cookie", "sbx-port=x; Path=/"),
    ]
    headers = HTTPHeaders({"Cookie": "sbx-port=secret", "Authorization": "Basic x"})

    assert for_browser_at_host(given, frozenset()) == [("Set-Cookie", "a=b; Path=/; HttpOnly")]
    passed = dict(for_sandbox_at_host(headers, "http", 1))
    assert passed == {"X-Forwarded-Proto": "http", "Authorization": "Basic x"}


@pytest.mark.parametrize(
    "pattern",
    [
        "localhost",
        "{port}.localhost",
        "{id}-{port}",
        "{port}-{id}-{id}.x",
        "{port}-{id}.a b",
        "{port}_{id}.x",
        "{port}-{id}.x:y",
        "-{port}-{id}.x",
    ],
)
def test_a_pattern_that_makes_no_host_names_is_refused(pattern):
    with pytest.raises(InvalidArgumentError):
        PortHosts(pattern)
    with pytest.raises(TraitError, match="port_hosts"):
        SbxExtension(port_hosts=pattern)


def test_names_are_made_and_read():
    hosts, elsewhere = PortHosts(PATTERN), PortHosts("sbx-{id}-{port}.apps.example.net:8443")
    route = Route("i" + "a1" * 10, 80)

    assert hosts.address(route, "localhost:8888") == f"80-{route.sandbox_id}.localhost:8888"
    assert hosts.address(route, "localhost") == f"80-{route.sandbox_id}.localhost"
    address = elsewhere.address(route, "hub.example.org")
    assert address is not None
    assert address == f"sbx-{route.sandbox_id}-80.apps.example.net:8443"
    assert elsewhere.find(address.removesuffix(":8443")) == route
    assert hosts.find(f"80-{route.sandbox_id}.LOCALHOST") == route
    assert hosts.address(Route("a" * 61, 80), "localhost") is None
    for name in ("localhost", "0-ia.localhost", "80-i_a.localhost", "80-ia.localhost.evil.invalid"):
        assert hosts.find(name) is None
    assert not re.match(rf"{hosts.expression}$", "x.80-ia.localhost")


def test_an_entry_is_used_once_and_soon():
    now = [0.0]
    grant = Grants(lambda: now[0]).give(ANN, "i1", 80)
    tokens = OneTimeTokens(lambda: now[0])
    first, second, third = (tokens.make(grant, "/") for _ in range(3))

    assert tokens.use(first, "i1", 80) is not None
    assert tokens.use(first, "i1", 80) is None
    assert tokens.use(second, "i1", 81) is None
    now[0] = TOKEN_SECONDS + 1
    assert tokens.use(third, "i1", 80) is None


def test_an_open_socket_keeps_a_grant_in_use_for_half_a_day_at_most():
    now = [0.0]
    grants = Grants(lambda: now[0])
    grant = grants.give(ANN, "i1", 80)

    with grant.held():
        now[0] = IDLE_SECONDS + 1
        assert grants.find(grant.token, "i1", 80) is grant
        now[0] = LONGEST_SECONDS + 1
        assert grants.find(grant.token, "i1", 80) is None
