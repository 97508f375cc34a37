"""Who may reach the routes, and that none can be reached around the checks."""

from __future__ import annotations

import inspect
import json

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketHandler

from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.server.answers import logged
from sbx_jupyter.server.extension import HANDLERS

HTTP_ROUTES = [
    ("GET", "info"),
    ("GET", "openapi.json"),
    ("GET", "connections"),
    ("PATCH", "connections"),
    ("POST", "copies"),
    ("GET", "kernels"),
    ("POST", "kernels"),
    ("POST", "kernels/k1/drawing"),
    ("POST", "kernels/k1/sandbox"),
    ("GET", "kernelspecs/python3"),
    ("POST", "kernelspecs/python3"),
    ("GET", "sandboxes"),
    ("POST", "sandboxes"),
    ("GET", "sandboxes/i1"),
    ("PATCH", "sandboxes/i1"),
    ("DELETE", "sandboxes/i1"),
    ("POST", "sandboxes/i1/timeout"),
    ("POST", "sandboxes/i1/pause"),
    ("POST", "sandboxes/i1/connect"),
    ("GET", "sandboxes/i1/metrics"),
    ("GET", "sandboxes/i1/metrics/history"),
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/ListDir"),
    ("GET", "sandboxes/i1/files"),
    ("POST", "sandboxes/i1/files"),
    ("POST", "sandboxes/i1/files/compose"),
    ("GET", "sandboxes/i1/listing"),
    ("GET", "sandboxes/i1/archive"),
    ("GET", "sandboxes/i1/terminals"),
    ("GET", "sandboxes/i1/terminals/7"),
    ("DELETE", "sandboxes/i1/terminals/7"),
    ("PATCH", "sandboxes/i1/terminals/7"),
    ("POST", "sandboxes/i1/snapshots"),
    ("POST", "sandboxes/i1/fork"),
    ("GET", "sandboxes/i1/operations"),
    ("DELETE", "sandboxes/i1/operations/o1"),
    ("GET", "templates"),
    ("DELETE", "templates/t1"),
    ("GET", "volumes"),
    ("POST", "volumes"),
    ("DELETE", "volumes/v1"),
    ("GET", "secrets"),
    ("POST", "secrets"),
    ("POST", "secrets/s1"),
    ("DELETE", "secrets/s1"),
    ("GET", "sandboxes/i1/logs"),
    ("GET", "sandboxes/i1/diff"),
    ("GET", "sandboxes/i1/diff/before"),
    ("GET", "metrics"),
    ("GET", "sandboxes/i1/processes"),
    ("POST", "sandboxes/i1/processes/7/signal"),
    ("GET", "sandboxes/i1/ports"),
    ("POST", "templates"),
    ("GET", "templates/t1"),
    ("PATCH", "templates/t1"),
    ("GET", "templates/t1/builds/b1"),
    ("DELETE", "templates/t1/builds/b1"),
    ("GET", "templates/t1/builds/b1/logs"),
    ("GET", "snapshots"),
    ("GET", "volumes/v1/dir"),
    ("POST", "volumes/v1/dir"),
    ("GET", "volumes/v1/files"),
    ("POST", "volumes/v1/files"),
    ("DELETE", "volumes/v1/files"),
    ("GET", "events"),
    ("GET", "help"),
    ("GET", "help/storage"),
    ("GET", "help/pictures/panel-light.png"),
]
SOCKETS = ["sandboxes/i1/terminal", "sandboxes/i1/watch"]


def test_the_lists_of_routes_here_are_complete():
    served = {
        (name.upper(), handler)
        for _, handler in HANDLERS
        for name in ("get", "post", "put", "patch", "delete", "head")
        if inspect.isfunction(handler.__dict__.get(name))
    }

    http = [pair for pair in served if not issubclass(pair[1], WebSocketHandler)]

    assert len(http) == len(HTTP_ROUTES)
    assert len([h for _, h in HANDLERS if issubclass(h, WebSocketHandler)]) == len(SOCKETS)


@pytest.mark.parametrize("credential", ["token wrong", ""])
async def test_a_wrong_token_or_none_is_refused(api, credential):
    for method, path in HTTP_ROUTES:
        status, _ = await api(method, *path.split("/"), headers={"Authorization": credential})

        assert status == 403, (method, path)


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_socket_with_a_wrong_token_is_refused(open_socket, path):
    with pytest.raises(HTTPClientError) as caught:
        await open_socket(path, headers={"Authorization": "token wrong"})

    assert caught.value.code == 403


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_socket_from_another_origin_is_refused_despite_its_cookie(
    open_socket, login_cookie, path
):
    headers = {"Authorization": "", "Cookie": login_cookie, "Origin": "https://elsewhere.invalid"}

    with pytest.raises(HTTPClientError) as caught:
        await open_socket(path, headers=headers)

    assert caught.value.code == 403


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_socket_from_the_own_origin_is_accepted(
    open_socket, jp_http_port, login_cookie, path
):
    origin = f"http://localhost:{jp_http_port}"
    headers = {"Authorization": "", "Cookie": login_cookie, "Origin": origin}

    socket = await open_socket(path, headers=headers)
    first = json.loads(await socket.read_message())

    assert first["error"]["code"] == "unavailable"
    assert await socket.read_message() is None
    assert socket.close_code == 4503


async def test_a_cookie_without_the_xsrf_token_changes_nothing(api, login_cookie):
    headers = {"Authorization": "", "Cookie": login_cookie}

    for method, path in [route for route in HTTP_ROUTES if route[0] != "GET"]:
        status, body = await api(method, *path.split("/"), headers=headers)

        assert status == 403, (method, path)
        assert "XSRF" in body["message"] or "_xsrf" in body["message"]


async def test_a_page_of_another_origin_cannot_read_the_list(api, login_cookie):
    headers = {
        "Authorization": "",
        "Cookie": login_cookie,
        "Origin": "https://elsewhere.invalid",
        "Referer": "https://elsewhere.invalid/page",
    }

    status, _ = await api("GET", "sandboxes", headers=headers)

    assert status == 404


class Refusing(Authorizer):
    """Allows nothing about sandboxes, and remembers what was asked."""

    def is_authorized(self, handler, user, action, resource):
        self.asked = [*getattr(self, "asked", []), (action, resource)]
        return resource != "sandboxes"


@pytest.fixture
def refusing(jp_server_config):
    jp_server_config["ServerApp"]["authorizer_class"] = Refusing


async def test_the_authorizer_decides_about_every_route(refusing, api, jp_serverapp):
    for method, path in HTTP_ROUTES:
        jp_serverapp.authorizer.asked = []
        status, _ = await api(method, *path.split("/"))

        assert status == 403, (method, path)
        [(action, resource)] = jp_serverapp.authorizer.asked[:1]
        assert resource == "sandboxes"
        assert action in ("read", "write", "execute")


@pytest.mark.parametrize("path", SOCKETS)
async def test_the_authorizer_decides_about_every_socket(refusing, open_socket, jp_serverapp, path):
    with pytest.raises(HTTPClientError) as caught:
        await open_socket(path)

    assert caught.value.code == 403
    action = "read" if path.endswith("watch") else "execute"
    assert (action, "sandboxes") in jp_serverapp.authorizer.asked


class ReadOnly(Authorizer):
    """For guests: they look and touch nothing."""

    def is_authorized(self, handler, user, action, resource):
        return resource != "sandboxes" or action == "read"


@pytest.fixture
def read_only(jp_server_config):
    jp_server_config["ServerApp"]["authorizer_class"] = ReadOnly


LOOKING = {
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/ListDir"),
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/Stat"),
    ("POST", "sandboxes/i1/rpc/process.Process/List"),
    *((method, path) for method, path in HTTP_ROUTES if method == "GET" and path != "events"),
}
TOUCHING = {
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/MakeDir"),
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/Move"),
    ("POST", "sandboxes/i1/rpc/filesystem.Filesystem/Remove"),
    ("POST", "sandboxes/i1/rpc/process.Process/SendSignal"),
    *((method, path) for method, path in HTTP_ROUTES if method != "GET"),
} - LOOKING


async def test_a_guest_who_may_only_read_can_look(read_only, api):
    for method, path in sorted(LOOKING):
        status, _ = await api(method, *path.split("/"), params={"path": "/x"})

        assert status in (200, 503), (method, path)  # there is no engine behind this server


async def test_a_guest_who_may_only_read_changes_nothing(read_only, api):
    for method, path in sorted(TOUCHING):
        status, _ = await api(method, *path.split("/"), params={"path": "/x"})

        assert status == 403, (method, path)


def test_an_error_is_one_line_in_the_log():
    error = NotFoundError(
        "path '/a\n[I 2026-11-22 00:00:00] forged\x1b[2J\x1b]0;title\x07' not found"
    )
    said = logged(error)
    assert said.isprintable()
    assert said.startswith("path '/a [I 2026")
