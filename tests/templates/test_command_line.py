"""``jupyter sbx template`` against a real engine, and how it reads Dockerfiles."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.client.build_context import BuildContext
from sbx_jupyter.client.dockerfile import parse_dockerfile
from sbx_jupyter.errors import InvalidArgumentError
from tests.engine_process import CHECKOUT

from .images import BUSYBOX, TinyImage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine_process import EngineProcess

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


def sbx(engine: EngineProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "sbx_jupyter.cli", "template", *arguments,
         "--data-dir", str(engine.data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
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
    assert "EXPOSE means nothing" in built.stderr
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
    file = tmp_path / "small.tar"
    file.write_bytes(TinyImage().layout())
    done = sbx(engine, "import", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Built small" in done.stdout


def test_a_dockerfile_is_read_as_docker_does() -> None:
    found = parse_dockerfile(DOCKERFILE + 'ENTRYPOINT ["python", "-m"]\nCMD ["http.server"]\n')
    assert found.image == "e2bdev/base"
    assert [(step.type, step.args) for step in found.steps] == [
        ("USER", ["root"]),
        ("WORKDIR", ["/"]),
        ("ENV", ["A", "1", "B", "two words"]),
        ("ENV", ["C", "three words"]),
        ("WORKDIR", ["/opt/app"]),
        ("COPY", ["data/*.txt", "./data/", "user:user", "0700"]),
        ("COPY", ["data/other.bin", "./data/", "user:user", "0700"]),
        ("RUN", ['echo "$A $B $C" && ls data > listing']),
        ("RUN", ["sh -c 'echo exec form >> listing'"]),
        ("USER", ["user"]),
    ]
    assert (found.start_command, found.ready_command) == ("python -m http.server", "sleep 20")
    assert found.ignored == ["EXPOSE"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("RUN true", "line 1: RUN before FROM"),
        ("FROM a\nFROM b", "line 2: a template is built of one stage"),
        ("FROM a\nFLY away", "line 2: unknown instruction FLY"),
        ("FROM a\nCOPY --from=b x y", "line 2: --from of COPY is not supported"),
        ("FROM a\nCOPY x", "line 2: COPY needs"),
        ("FROM a\nRUN --mount=type=cache x", "line 2: options of RUN"),
        ("", "there is no FROM"),
    ],
)
def test_what_cannot_be_built_is_said_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        parse_dockerfile(text)


def test_a_source_outside_of_the_context_is_refused(tmp_path: Path) -> None:
    context = BuildContext(tmp_path)
    for source in ("../up", "/etc/passwd", "missing"):
        with pytest.raises(InvalidArgumentError):
            context.find(source)
