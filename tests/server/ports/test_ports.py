"""Ports of a sandbox below the server's base URL: what passes, what is removed, who may."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import urllib.parse

import httpx
import pytest
import pytest_asyncio
from jupyter_server.auth import User
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from sbx_jupyter.client.connection.environment import PORT_URL_VARIABLE
from sbx_jupyter.server.ports.grants import IDLE_SECONDS, LONGEST_SECONDS, Grants
from sbx_jupyter.server.ports.headers import move_location
from tests.server.ports.programs import PORT, start_program
from tests.waiting import PATIENCE, async_until

ANN = User(username="ann")


@pytest.mark.parametrize("jp_base_url", ["/", "/user/a%40b/", "/jupyter/x/"])
async def test_a_login_leads_to_an_address_that_needs_no_cookie(program, page, sandbox):
    answer = await page.get("some/path%20x?a=1&token=app")
    told = answer.json()

    assert re.search(rf"/sbx/port/{sandbox}/{PORT}/~[\w-]{{32}}/$", str(page.base_url))
    assert told["path"] == "/some/path%20x?a=1&token=app"
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox ")
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_nothing_of_jupyter_reaches_the_program(program, page, login_cookie, jp_serverapp):
    token = jp_serverapp.identity_provider.token
    headers = {
        "Cookie": login_cookie,
        "Authorization": f"token {token}",
        "X-XSRFToken": "x",
        "Referer": str(page.base_url),
        "X-Forwarded-For": "192.0.2.7",
        "X-Custom": "stays",
    }

    told = (await page.get("x", headers=headers)).json()
    names = {name.lower(): value for name, value in told["headers"]}

    assert {"cookie", "authorization", "x-xsrftoken", "referer", "x-forwarded-for"}.isdisjoint(
        names
    )
    assert {"x-access-token", "x-api-key"}.isdisjoint(names)
    assert names["x-custom"] == "stays"
    assert names["host"] == f"localhost:{PORT}"
    assert names["origin"] == f"http://localhost:{PORT}"
    assert names["x-forwarded-prefix"] == urllib.parse.urlsplit(str(page.base_url)).path.rstrip("/")
    assert token not in str(told)


async def test_answers_before_the_body_is_read_say_that_the_connection_closes(
    sandbox, browser, jp_base_url
):
    url = f"{jp_base_url}sbx/port/{sandbox}/{PORT}/x"

    for method, status in (("GET", 302), ("POST", 403)):
        answer = await browser.request(method, url)
        assert (answer.status_code, answer.headers["Connection"]) == (status, "close")
    login = await browser.get(url, headers={"Cookie": ""})
    assert (login.status_code, login.headers["Connection"]) == (302, "close")


async def test_the_query_is_the_programs(program, page):
    assert (await page.get("x?connection=app")).json()["path"] == "/x?connection=app"


async def test_a_token_in_a_header_needs_no_grant(program, jp_fetch, sandbox, jp_serverapp):
    token = jp_serverapp.identity_provider.token

    answer = await jp_fetch(
        "sbx", "port", sandbox, str(PORT), "api", method="GET", params={"token": token, "q": "1"}
    )

    assert b'"/api?q=1"' in answer.body
    assert answer.headers["Content-Security-Policy"].startswith("sandbox ")


async def test_a_token_in_the_query_stays_here_however_it_is_written(
    program, sandbox, jp_http_port, jp_base_url, jp_serverapp
):
    token = jp_serverapp.identity_provider.token
    url = f"http://localhost:{jp_http_port}{jp_base_url}sbx/port/{sandbox}/{PORT}/api"
    async with httpx.AsyncClient(
        headers={"Authorization": f"token {token}"}, timeout=PATIENCE
    ) as client:
        told = [
            (await client.get(f"{url}?q=1&{name}={token}")).json()["path"]
            for name in ("token", "%74oken", "tok%65n")
        ]

    assert told == ["/api?q=1"] * 3


async def test_hostile_answers_change_nothing_on_jupyters_origin(program, page):
    answer = await page.get("hostile")
    names = {name.lower() for name in answer.headers}

    assert answer.text == "<h1>hi</h1>"
    assert names.isdisjoint(
        {
            "set-cookie",
            "clear-site-data",
            "www-authenticate",
            "service-worker-allowed",
            "strict-transport-security",
            "accept-ch",
            "use-as-dictionary",
            "secure-session-registration",
            "cross-origin-opener-policy",
        }
    )
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    policies = answer.headers.get_list("Content-Security-Policy")
    assert any(policy.startswith("sandbox ") for policy in policies)


async def test_a_redirect_of_the_program_stays_below_the_address(program, page):
    prefix = urllib.parse.urlsplit(str(page.base_url)).path.rstrip("/")

    async def follow(location):
        return (await page.get(f"redirect?{location}")).headers["Location"]

    assert await follow("/login") == f"{prefix}/login"
    assert await follow(f"http://localhost:{PORT}/a?b=c") == f"{prefix}/a?b=c"
    assert await follow("next") == "next"
    assert await follow("https://other.example/x") == "https://other.example/x"


def test_a_location_cannot_leave_by_slashes():
    hosts = frozenset({"localhost:8000"})

    assert move_location("//localhost:8000//evil.example/", "/p", hosts) == "/p/evil.example/"
    assert move_location("/p/a", "/p", hosts) == "/p/a"
    assert move_location("mailto:a@b", "/p", hosts) == "mailto:a@b"


@pytest_asyncio.fixture
async def engine_is_known(page, jp_serverapp):
    """The server has asked the engine what it can do."""
    extension = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app

    async def is_known():
        return extension.deployments.default.capabilities is not None

    await async_until(is_known)


async def test_requests_share_a_connection_until_the_program_closes_it(
    program, page, engine_is_known
):
    await page.get("x")  # the program listens
    ports = {(await page.get("connection")).text for _ in range(3)}
    await page.get("leave")
    after = (await page.get("connection")).text

    assert len(ports) == 1
    assert after not in ports


async def test_what_changes_something_gets_a_connection_of_its_own(program, page, engine_is_known):
    await page.get("x")
    kept = (await page.get("connection")).text

    assert (await page.delete("connection")).text != kept


async def test_deployments_without_tunnels_forward_requests(
    program, page, engine_is_known, jp_serverapp
):
    extension = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    extension.deployments.default.capabilities = None

    answer = await page.get("some/path?a=1")
    posted = await page.post("upload", content=b"x" * 100_000)

    assert answer.json()["path"] == "/some/path?a=1"
    assert posted.json()["size"] == 100_000


async def test_events_arrive_while_the_program_goes_on(program, page):
    async with page.stream("GET", "events") as answer:
        received = b""
        async for piece in answer.aiter_raw():
            received += piece
            if b"data: 2" in received:
                break

    assert received.startswith(b"data: 0\n\n")


async def test_large_bodies_pass_both_ways(program, page):
    content = bytes(1024 * 1024) * 32

    async def pieces():
        for start in range(0, len(content), 1 << 20):
            yield content[start : start + (1 << 20)]

    sized = (await page.post("upload", content=content)).json()
    chunked = (await page.put("upload", content=pieces())).json()
    size = 0
    async with page.stream("GET", f"big?{len(content)}") as answer:
        async for piece in answer.aiter_raw():
            size += len(piece)

    assert sized == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert (chunked, size) == (sized, len(content))


async def test_an_answer_that_breaks_off_never_looks_whole(program, page):
    for path in ("cut", "chunks"):
        with pytest.raises(httpx.RemoteProtocolError):
            await page.get(path)


async def test_the_first_request_waits_for_a_program_that_starts(inside, page):
    await start_program(inside, delay=1.5)

    assert (await page.get("x")).status_code == 200


@pytest.fixture
def open_page_socket(page):
    def connect(path="socket", **headers):
        url = str(page.base_url).replace("http://", "ws://") + path
        return websocket_connect(
            HTTPRequest(url, headers=headers or {"Origin": "null"}),
            max_message_size=100 * 1024 * 1024,
        )

    return connect


async def test_a_socket_passes_frames_of_any_size(program, open_page_socket):
    socket = await open_page_socket()
    large = bytes(50 * 1024 * 1024)

    await socket.write_message("hello")
    assert await socket.read_message() == "hello"
    await socket.write_message("origin?")
    assert await socket.read_message() == f"http://localhost:{PORT}"
    await socket.write_message(large, binary=True)
    assert await socket.read_message() == large
    socket.close()


async def test_a_socket_of_another_origin_is_refused(program, open_page_socket):
    with pytest.raises(HTTPClientError) as caught:
        await open_page_socket(Origin="https://elsewhere.invalid")

    assert caught.value.code == 403


async def test_another_origin_cannot_use_a_grant(program, page):
    answer = await page.get("x", headers={"Origin": "https://elsewhere.invalid"})

    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_grant_is_for_one_port_of_one_sandbox(program, page, sandbox):
    url = str(page.base_url)

    other_port = await page.get(url.replace(f"/{PORT}/", "/8001/"))
    other_sandbox = await page.get(url.replace(sandbox, "i" + "0" * 20))
    guessed = await page.get(re.sub(r"~[\w-]+", "~" + "A" * 32, url))

    assert [each.status_code for each in (other_port, other_sandbox, guessed)] == [403, 403, 403]


async def test_a_preflight_of_the_page_is_answered(program, page):
    answer = await page.options(
        "x",
        headers={
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "x-app",
        },
    )

    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    assert answer.headers["Access-Control-Allow-Headers"] == "x-app"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_a_login_cookie_alone_changes_nothing(program, browser, jp_base_url, sandbox, method):
    answer = await browser.request(method, f"{jp_base_url}sbx/port/{sandbox}/{PORT}/x")

    assert answer.status_code == 403


async def test_without_a_login_a_browser_is_sent_to_the_login_page(
    program, jp_http_port, jp_base_url, sandbox
):
    url = f"http://localhost:{jp_http_port}{jp_base_url}sbx/port/{sandbox}/{PORT}/x"
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        page = await client.get(url, headers={"Accept": "text/html"})
        call = await client.get(url)
        wrong = await client.get(url, headers={"Authorization": "token wrong"})

    assert page.status_code == 302
    assert "/login?next=" in page.headers["Location"]
    assert [call.status_code, wrong.status_code] == [403, 403]


@pytest.mark.parametrize("port", ["49983", "49999", "0", "65536"])
async def test_ports_of_the_interface_and_no_ports_are_refused(jp_fetch, port):
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("sbx", "port", "i1", port, "", method="GET")

    assert caught.value.code in (400, 403)


async def test_the_log_shows_no_grant(program, page, caplog, jp_serverapp):
    grant = re.search(r"~([\w-]{32})", str(page.base_url))
    assert grant is not None
    with caplog.at_level(logging.DEBUG):
        await page.get("x")
        await page.get("cut", headers={"Origin": "https://elsewhere.invalid"})
        await asyncio.sleep(0)

    assert f"/{PORT}/x" in caplog.text
    server_lines = [r.getMessage() for r in caplog.records if r.name != "httpx"]
    assert grant[1] not in "\n".join(line for line in server_lines if "HTTP Request" not in line)


def test_a_grant_ends_when_it_is_not_used_and_after_half_a_day():
    now = [0.0]
    grants = Grants(lambda: now[0])
    unused, used = grants.give(ANN, "i1", 1), grants.give(ANN, "i1", 1)

    for _ in range(int(LONGEST_SECONDS / 600) - 1):
        now[0] += 600
        assert grants.find(used.token, "i1", 1) is used

    assert now[0] > IDLE_SECONDS
    assert grants.find(unused.token, "i1", 1) is None
    now[0] += 601
    assert grants.find(used.token, "i1", 1) is None


async def test_an_ended_grant_leads_a_signed_in_browser_to_a_new_one(
    program, page, browser, jp_serverapp
):
    extension = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    extension.ports.grants._grants.clear()

    answer = await browser.get(str(page.base_url) + "x?y=1")

    assert answer.status_code == 302
    assert re.search(r"/8000/~[\w-]{32}/x\?y=1$", answer.headers["Location"])


async def test_cookies_of_one_sandbox_are_not_kept_for_another(program, page, engine):
    await page.get("hostile")

    told = (await page.get("x")).json()

    assert "stolen" not in str(told)


async def test_kernels_are_told_the_address_for_the_browser(
    jp_serverapp, jp_base_url, jp_http_port
):
    environment = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app._environment
    environment.name_ports(jp_serverapp.public_url)

    assert os.environ[PORT_URL_VARIABLE].endswith(f"{jp_base_url}sbx/port/")
    assert os.environ[PORT_URL_VARIABLE].startswith("http")
