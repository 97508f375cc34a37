"""``jupyter sbx template`` against a real engine."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.engine_process import CHECKOUT

from .images import BUSYBOX, TinyImage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine_process import EngineProcess

    from .conftest import Api

DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG unused=1
FROM e2bdev/base AS only
ENV A=1 B="two words"
ENV C three words
WORKDIR /opt/app
COPY --chown=user:user --chmod=0700 data/*.txt data/other.bin ./data/
RUN echo "$A $B $C" \\
    # a comment within
    && ls data > listing
RUN ["sh", "-c", "echo exec form >> listing"]
EXPOSE 80
"""


SERVER = """#!/bin/sh
sleep 1
exec python3 -m http.server "$1"
"""


def sbx(engine: EngineProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "sbx_jupyter.cli.main", "template", *arguments,
         "--data-dir", str(engine.data_dir)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip


def test_a_dockerfile_becomes_a_template(engine: EngineProcess, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.txt").write_text("1")
    (tmp_path / "data" / "secret.txt").write_text("s")
    (tmp_path / "data" / "other.bin").write_text("2")
    (tmp_path / ".dockerignore").write_text("**/secret.txt\n")
    file = tmp_path / "Dockerfile"
    file.write_text(DOCKERFILE + "RUN [ \"$(ls data | tr '\\n' ' ')\" = 'one.txt other.bin ' ]\n")

    built = sbx(engine, "build", "from-file:v1", "-f", str(file), "--memory", "512")

    assert built.returncode == 0, built.stdout + built.stderr
    assert "[stdout]: 1 two words three words" in built.stdout
    assert "line 12: EXPOSE: every port of a sandbox can be reached: left out" in built.stderr
    listed = sbx(engine, "list").stdout
    assert any("from-file" in line and "512" in line for line in listed.splitlines())
    assert sbx(engine, "delete", "from-file").returncode == 0
    gone = sbx(engine, "delete", "from-file")
    assert (gone.returncode, "there is no template from-file" in gone.stderr) == (1, True)


def test_a_failed_build_gives_its_reason_and_a_failure_code(
    engine: EngineProcess, tmp_path: Path
) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM e2bdev/base\nRUN exit 9\n")
    built = sbx(engine, "build", "failing-file", "-f", str(file))
    assert built.returncode == 1
    assert "'exit 9': command failed: exit status 9" in built.stderr


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs the Debian package busybox-static")
def test_an_image_is_imported_as_a_template(engine: EngineProcess, tmp_path: Path) -> None:
    file = tmp_path / "Small-22.04.tar.gz"
    file.write_bytes(TinyImage().layout())
    done = sbx(engine, "import", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Built small-22-04 " in done.stdout


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs the Debian package busybox-static")
def test_an_imported_image_keeps_its_name_and_tag(
    engine: EngineProcess, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "small.tar"
    file.write_bytes(TinyImage().layout())

    done = sbx(engine, "import", str(file), "--name", "tiny:22.04")
    built = api.build("from-tiny", fromImage="docker.io/library/tiny:22.04")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Built tiny:22.04" in done.stdout
    assert built["status"] == "ready", built
    assert api.client.get("/templates/aliases/tiny:22.04").status_code == 200


@pytest.mark.long
def test_a_dockerfile_with_a_server_is_ready_when_it_listens(
    engine: EngineProcess, api: Api, tmp_path: Path
) -> None:
    """Neither the build nor a sandbox waits for twenty seconds."""
    (tmp_path / "serve").write_text(SERVER)
    (tmp_path / "Dockerfile").write_text(
        "FROM e2bdev/base\nARG PAGE=none\nENV PAGE=$PAGE\nWORKDIR /srv/www\n"
        "COPY --chmod=755 serve /usr/local/bin/\nCOPY <<page page\nthe $PAGE\npage\n"
        'RUN <<EOF\n#!/usr/bin/env python3\nopen("made", "w").write("by python")\nEOF\n'
        'ENTRYPOINT ["serve"]\nCMD ["8123"]\n'
    )
    built = sbx(engine, "build", "server-file", "-f", str(tmp_path / "Dockerfile"),
                "--build-arg", "PAGE=page of today")  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    assert "listens on a port, 20 seconds at most" in built.stdout
    assert "New sandboxes wait until something listens on port 8123" in built.stdout
    for _ in range(2):
        made = api.client.post("/v2/sandboxes", json={"templateID": "server-file"}).json()
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "8123"}
        assert api.client.get("/page", headers=headers).text == "the page of today\n"
        assert api.client.get("/made", headers=headers).text == "by python"
        assert api.client.delete(f"/sandboxes/{made['sandboxID']}").status_code == 204


@pytest.mark.long
def test_a_ready_command_may_be_given_with_a_dockerfile(
    engine: EngineProcess, tmp_path: Path
) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(
        "FROM e2bdev/base\nUSER user\nWORKDIR /home/user\n"
        "HEALTHCHECK CMD test -e healthy\nCMD sleep 1; touch healthy given; sleep 60\n"
    )
    built = sbx(engine, "build", "checked-file", "-f", str(file))
    assert built.returncode == 0, built.stderr
    assert "Waiting for ready command: test -e healthy" in built.stdout
    built = sbx(engine, "build", "checked-file", "-f", str(file), "--ready-cmd", "test -e given")
    assert built.returncode == 0, built.stderr
    assert "Waiting for ready command: test -e given" in built.stdout
