"""The image does what ``docs/containers.md`` says, with its options and without them."""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.containers.podman import Container, Podman, running
from tests.engine_process import CHECKOUT
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)  # packages are installed into the image first

TOKEN: Final = "of-the-tests"
PAGE: Final = CHECKOUT / "docs" / "containers.md"

LIKE_A_POD: Final = ("--user=1000:100", "--cap-drop=ALL", "--security-opt=no-new-privileges")
"""As hubs on Kubernetes start servers: one id, no capability, and none to be had."""


def options_of_the_page() -> list[str]:
    """The options with which the page runs the image, but for the ports and what follows."""
    (command,) = re.findall(r"^podman run ((?:.*\\\n)*.*)$", PAGE.read_text(), re.MULTILINE)
    words = shlex.split(command.replace("\\\n", " "))
    port = words.index("-p")
    assert words[-1] == "sbx-jupyter"
    return [word for word in [*words[:port], *words[port + 2 : -1]] if word != "--rm"]


@pytest.fixture(scope="module", params=["as the page says", "with no option", "like a pod"])
def container(request: pytest.FixtureRequest, podman: Podman, image: str) -> Iterator[Container]:
    options = {
        "as the page says": options_of_the_page(),
        "with no option": [],
        "like a pod": ["--volume=home:/home/jovyan", *LIKE_A_POD],
    }[request.param]
    with running(podman, f"--env=JUPYTER_TOKEN={TOKEN}", *options, image) as started:
        yield started


@pytest.fixture
def api(container: Container) -> Iterator[httpx.Client]:
    """The server's routes, as JupyterLab asks them."""
    with httpx.Client(
        base_url=f"{container.url}/sbx/api",
        headers={"Authorization": f"token {TOKEN}"},
        timeout=120,
        trust_env=False,
    ) as client:
        yield client


def made(api: httpx.Client) -> str:
    answer = api.post("/sandboxes", json={"timeout": 600})
    assert answer.is_success, answer.text
    return answer.json()["sandboxID"]


def test_it_serves_jupyterlab_with_the_panel(container: Container) -> None:
    page = httpx.get(
        f"{container.url}/lab", params={"token": TOKEN}, follow_redirects=True, timeout=PATIENCE
    )

    assert page.status_code == 200
    assert "sbx-jupyter" in page.text


def test_a_sandbox_runs_a_command(container: Container, api: httpx.Client) -> None:
    began = time.perf_counter()
    box = made(api)
    print(f"first sandbox: {time.perf_counter() - began:.1f} s; {api.get('/info').text}")

    assert container("jupyter", "sbx", "exec", box, "--", "echo", "here") == "here\n"
    assert api.delete(f"/sandboxes/{box}").is_success


def test_the_interpreter_runs_code(container: Container) -> None:
    program = (
        "from sbx_jupyter import Sandbox\n"
        "with Sandbox.create('code-interpreter-v1') as box: print(box.run_code('6 * 7').text)"
    )

    assert container("python", "-c", program) == "42\n"


def test_doctor_names_the_tier_and_what_would_give_more(
    container: Container, request: pytest.FixtureRequest
) -> None:
    report: dict[str, Any] = json.loads(container("jupyter", "sbx", "doctor", "--json"))

    print(container("jupyter", "sbx", "doctor"))
    options = request.node.callspec.params["container"]
    assert report["tier"] == ("namespaces" if options == "as the page says" else "landlock")
    words = [missing["what"] + missing["remedy"] for missing in report["missing"]]
    if report["tier"] == "landlock":
        assert any("seccomp=unconfined" in text or "systempaths" in text for text in words)


def test_what_ends_in_the_container_leaves_no_process(
    container: Container, api: httpx.Client
) -> None:
    for _ in range(3):
        api.delete(f"/sandboxes/{made(api)}").raise_for_status()
    container("jupyter", "sbx", "stop")

    until(lambda: "<defunct>" not in container("ps", "-eo", "args"), timeout=30)
