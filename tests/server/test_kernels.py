"""A kernel in the sandbox of its notebook, as the front end starts it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.engine_process import CHECKOUT

UNKNOWN = "i00000000000000000000"

pytestmark = pytest.mark.usefixtures("with_engine", "sandbox_kernels")


@pytest.fixture
def sandbox_kernels(jp_kernel_dir, echo_kernel_spec):
    """The specification of this checkout beside one whose kernels run on the host."""
    shutil.copytree(CHECKOUT / "sbx_jupyter" / "kernel" / "spec", jp_kernel_dir / "sbx-python3")


async def test_a_kernel_starts_in_the_sandbox_of_its_notebook(api, jp_fetch):
    request = {"template": "code-interpreter-v1", "timeout": 600}
    _, sandbox = await api("POST", "sandboxes", body=request)
    sandbox_id = sandbox["sandboxID"]
    body = {"kernel": "sbx-python3", "sandbox": sandbox_id, "path": "/tmp/work.ipynb"}
    try:
        status, started = await api("POST", "kernels", body=body)

        assert status == 201, started
        expected = {"kernelID": started["kernelID"], "sandboxID": sandbox_id}
        assert await api("GET", "kernels") == (200, {"kernels": [expected]})
        assert (await api("GET", "sandboxes"))[1]["kernels"] == [expected]

        body = {"mark": "a-mark-of-one-page", "seconds": 60}
        path = ("kernels", started["kernelID"], "drawing")
        assert (await api("POST", *path, body=body))[0] == 204
        status, error = await api("POST", *path, body=body | {"seconds": 10**9})
        assert (status, error["code"]) == (400, "invalid_argument")

        await jp_fetch("api", "kernels", started["kernelID"], method="DELETE")
        assert await api("GET", "kernels") == (200, {"kernels": []})
        # The sandbox was there before its kernel, and outlives it.
        assert (await api("GET", "sandboxes", sandbox_id))[0] == 200
    finally:
        await api("DELETE", "sandboxes", sandbox_id)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [("echo", "does not run in a sandbox"), ("nothing", "there is no kernel")],
)
async def test_a_kernel_that_would_run_outside_is_refused(api, sandbox, kernel, reason):
    status, error = await api("POST", "kernels", body={"kernel": kernel, "sandbox": sandbox})
    assert (status, error["code"]) == (400, "invalid_argument")
    assert reason in error["message"]
    assert await api("GET", "kernels") == (200, {"kernels": []})


async def test_a_kernel_in_an_unknown_sandbox_is_refused(api):
    status, error = await api("POST", "kernels", body={"kernel": "sbx-python3", "sandbox": UNKNOWN})
    assert (status, error["code"]) == (404, "not_found")


@pytest.mark.parametrize("route", ["drawing", "sandbox"])
async def test_what_is_asked_about_no_kernel_or_one_outside_is_refused(api, jp_fetch, route):
    body = {"mark": "a-mark-of-one-page", "seconds": 60}
    status, error = await api("POST", "kernels", UNKNOWN, route, body=body)
    assert (status, error["code"]) == (404, "not_found")

    made = await jp_fetch("api", "kernels", method="POST", body='{"name": "echo"}')
    outside = json.loads(made.body)["id"]
    status, error = await api("POST", "kernels", outside, route, body=body)
    assert (status, error["code"]) == (400, "invalid_argument")
    assert "does not run in a sandbox" in error["message"]
