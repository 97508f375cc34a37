"""A Jupyter server with the extension in it, on the event loop of the test."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio

# Only the fixtures: pytest-jupyter's own collection hooks would take every coroutine test of the
# session away from pytest-asyncio.
from pytest_jupyter.jupyter_core import (  # noqa: F401
    echo_kernel_spec,
    jp_config_dir,
    jp_data_dir,
    jp_env_config_path,
    jp_env_jupyter_path,
    jp_environ,
    jp_home_dir,
    jp_kernel_dir,
    jp_runtime_dir,
    jp_system_config_path,
    jp_system_jupyter_path,
)
from pytest_jupyter.jupyter_server import (  # noqa: F401
    jp_argv,
    jp_auth_header,
    jp_base_url,
    jp_configurable_serverapp,
    jp_fetch,
    jp_http_port,
    jp_logging_stream,
    jp_nbconvert_templates,
    jp_root_dir,
    jp_server_cleanup,
    jp_serverapp,
    jp_template_dir,
    jp_web_app,
    jp_ws_fetch,
)
from pytest_jupyter.pytest_tornasync import (  # noqa: F401
    http_server,
    http_server_client,
    http_server_port,
    io_loop,
)
from tornado.httpclient import HTTPClientError

from tests.engine_process import engine_process
from tests.server import conformity as described

PATIENT = {"connect_timeout": 120.0, "request_timeout": 120.0}
"""Seconds, instead of tornado's 20: a first call starts an engine, on a busy machine, too."""


@pytest_asyncio.fixture
async def loop_of_the_test():
    return asyncio.get_running_loop()


@pytest.fixture
def jp_asyncio_loop(loop_of_the_test):
    return loop_of_the_test


@pytest.fixture
def extension_settings(tmp_path):
    """What ``c.SbxExtension`` holds: by default an engine that is not there and is not started."""
    return {"data_dir": str(tmp_path / "no-engine"), "auto_start": False}


@pytest.fixture
def jp_server_config(extension_settings, monkeypatch):
    # The extension names its engine to kernels by this variable; the test gives it back.
    monkeypatch.setenv("SBX_DATA_DIR", extension_settings.get("data_dir", ""))
    return {
        "ServerApp": {
            "jpserver_extensions": {"sbx_jupyter": True, "jupyter_server_terminals": False},
            "allow_unauthenticated_access": False,
        },
        "SbxExtension": extension_settings,
    }


@pytest.fixture(autouse=True)
def conformity():
    """Fails a test in which a route of this process does what the description does not say."""
    noted = described.Conformity()
    # Not by the test's own patches, whose order of removal other tests rely on.
    with pytest.MonkeyPatch.context() as patch:
        described.watch(patch.setattr, noted)
        yield noted
    assert noted.problems == []


@pytest.fixture
def api(jp_fetch):  # noqa: F811
    """``await api("GET", "sandboxes", ...)``: status, decoded body; errors are answers, too."""

    async def call(method, *parts, body=None, **options):
        if body is not None:
            options["body"] = body if isinstance(body, bytes) else json.dumps(body)
        elif method in ("POST", "PUT", "PATCH"):
            options["body"] = b""
        try:
            response = await jp_fetch("sbx", "api", *parts, method=method, **PATIENT | options)
        except HTTPClientError as e:
            if e.response is None:
                raise
            response = e.response
        raw = response.body
        is_json = "json" in response.headers.get("Content-Type", "") and raw
        return response.code, json.loads(raw) if is_json else raw

    return call


@pytest.fixture
def login_cookie(jp_serverapp, jp_asyncio_loop, http_server_client, jp_base_url, jp_http_port):  # noqa: F811
    """The cookies of a browser that has signed in, under either name of this machine."""
    url = f"{jp_base_url}login?token={jp_serverapp.identity_provider.token}"
    cookies = []
    for host in ("localhost", "127.0.0.1"):
        response = jp_asyncio_loop.run_until_complete(
            http_server_client.fetch(
                url,
                headers={"Host": f"{host}:{jp_http_port}"},
                follow_redirects=False,
                raise_error=False,
            )
        )
        cookies += [c.partition(";")[0] for c in response.headers.get_list("Set-Cookie")]
    assert sum(cookie.startswith("username-") for cookie in cookies) == 2
    return "; ".join(cookies)


@pytest_asyncio.fixture
async def open_socket(jp_ws_fetch):  # noqa: F811
    """``await open_socket("sandboxes/...", cols=80)``; closed when the test ends."""
    opened = []

    async def connect(route, /, headers=None, **params):
        socket = await jp_ws_fetch(
            "sbx", "api", *route.split("/"), headers=dict(headers or {}), params=params
        )
        opened.append(socket)
        return socket

    yield connect
    for socket in opened:
        ended = socket.close_code is not None  # the test has read the end, too
        socket.close()
        while not ended and await socket.read_message() is not None:
            pass


@pytest.fixture(scope="session")
def engine():
    with engine_process("server-tests") as running:
        yield running


@pytest.fixture
def with_engine(extension_settings, engine):
    """Lets the server of this test use the real engine."""
    extension_settings["data_dir"] = str(engine.data_dir)


@pytest_asyncio.fixture
async def sandbox(with_engine, api):
    """The id of a new sandbox, which is gone after the test."""
    status, view = await api("POST", "sandboxes", body={"timeout": 600})
    assert status == 201, view
    yield view["sandboxID"]
    await api("DELETE", "sandboxes", view["sandboxID"])


@pytest.fixture
def call(api, sandbox):
    """``await call("ListDir", {"path": "/"})``: the answer of a filesystem call."""

    async def filesystem(method, body, service="filesystem.Filesystem"):
        return await api("POST", "sandboxes", sandbox, "rpc", service, method, body=body)

    return filesystem
