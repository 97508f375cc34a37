"""The image as a hub's user image: the hub starts a container for a user, and ends it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.containers.podman import LIMITS
from tests.containers.test_image import LIKE_A_POD
from tests.hub.hub import running_hub
from tests.waiting import until_equal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.containers.podman import Podman
    from tests.hub.hub import Hub

pytestmark = pytest.mark.timeout(1800)

USER = "ann"
LABEL = "of=the-hub-of-the-tests"


@pytest.fixture
def hub(podman: Podman, image: str) -> Iterator[Hub]:
    variables = [f"{name}={value}" for name, value in podman.environment.items()]
    command = [
        *("env", *variables, *podman.command, "run", "--rm", f"--label={LABEL}"),
        # The hub and the server find each other by addresses of this machine.
        *("--network=host", *LIMITS, "--env=JUPYTERHUB_*"),
        "--volume=of-ann:/home/jovyan",
        *(*LIKE_A_POD, image, "jupyterhub-singleuser"),
    ]
    with running_hub("engine_per_user", {"SBX_HUB_COMMAND": json.dumps(command)}) as running:
        yield running


def test_a_user_of_a_hub_has_sandboxes_in_a_container(hub: Hub, podman: Podman) -> None:
    hub.start(USER)
    with hub.client(USER) as client:
        made = client.post("api/sandboxes", json={"timeout": 600})
        assert made.is_success, made.text
        info = client.get("api/info").raise_for_status().json()
        print(info)
        box = made.json()["sandboxID"]
        name = podman("ps", "--quiet", f"--filter=label={LABEL}").strip()
        ran = podman("exec", name, "jupyter", "sbx", "exec", box, "--", "echo", "here")
        assert ran == "here\n"

    hub.stop(USER)

    until_equal(lambda: podman("ps", "--quiet", f"--filter=label={LABEL}"), "", timeout=60)
