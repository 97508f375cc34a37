"""Builds by the unmodified e2b client (interface 7.1)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from e2b import (
    AsyncTemplate,
    Sandbox,
    Template,
    wait_for_file,
    wait_for_port,
    wait_for_process,
    wait_for_timeout,
    wait_for_url,
)
from e2b.exceptions import BuildException

from tests.waiting import until

from .conftest import waits_for_port
from .images import BUSYBOX, TinyImage
from .registries import htpasswd, push, serve_registry

if TYPE_CHECKING:
    from pathlib import Path

    from e2b import ReadyCmd

    from tests.engine_process import EngineProcess

    from .conftest import Api

pytestmark = pytest.mark.usefixtures("e2b_variables")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("first")
    (folder / "deep" / "b.txt").write_text("second")
    (folder / "link").symlink_to("a.txt")
    (folder / "absolute").symlink_to(folder / "a.txt")
    os.link(folder / "a.txt", folder / "hard")
    (tmp_path / "script.sh").write_text("#!/bin/sh\necho script\n")
    return tmp_path


@pytest.mark.long
def test_every_step_of_the_builder_does_what_it_says(context: Path) -> None:
    template = (
        Template(file_context_path=str(context))
        .from_template("base")
        .copy("folder", "/app/folder")
        .copy("folder/*", "flat", user="root", mode=0o755)
        .copy("script.sh", "/usr/local/bin/script", mode=0o755)
        .run_cmd(["cat /app/folder/a.txt", "script > said.txt"])
        .set_envs({"ONE": "1", "TWO": "${ONE}-2", "RAW": "$(id)"})
        .set_workdir("/srv/place")
        .run_cmd("pwd > where.txt && echo $TWO > two.txt")
        .set_user("worker")
        .run_cmd("id -un > /tmp/who.txt")
        .run_cmd("mkdir -p /srv/data && chmod 777 /srv/data", user="root")
    )
    lines: list[str] = []

    built = Template.build(
        template, "sdk-steps:v1", tags=["other"], on_build_logs=lambda e: lines.append(e.message)
    )

    assert built.tags == ["v1", "other"]
    assert any("[stdout]: first" in line for line in lines)
    with Sandbox.create("sdk-steps:other", timeout=600) as sandbox:
        look = sandbox.commands.run(
            'id -un; pwd; echo $TWO; echo "$RAW"; cat /srv/place/where.txt two.txt /tmp/who.txt;'
            "cat /home/user/said.txt; stat -c '%U %a' /home/user/flat/a.txt /app/folder/a.txt"
            " /srv/place /code /usr/local /srv/data; readlink /app/folder/link; "
            "cat /app/folder/hard /app/folder/deep/b.txt; grep BUILD /.e2b"
        ).stdout.splitlines()
    assert look == [
        "worker", "/srv/place", "1-2", "$(id)", "/srv/place", "1-2", "worker",
        "script", "root 755", "user 644",
        "user 755", "root 777", "root 777", "root 777", "a.txt",
        "firstsecondBUILD_ID=" + built.build_id,
    ]  # fmt: skip


@pytest.mark.long
def test_a_second_build_comes_from_the_cache(context: Path) -> None:
    def template() -> Any:
        return (
            Template(file_context_path=str(context))
            .from_template("base")
            .copy("folder", "/app/folder")
            .run_cmd("sleep 1; date +%N > /tmp/when")
            .set_envs({"A": "1"})
            .set_workdir("/app")
            .run_cmd("cat /tmp/when")
            .run_cmd("echo done")
        )

    def build(*, skip_cache: bool = False) -> tuple[float, list[str]]:
        lines: list[str] = []
        started = time.monotonic()
        Template.build(
            template(),
            "sdk-cached",
            on_build_logs=lambda e: lines.append(e.message),
            skip_cache=skip_cache,
        )
        return time.monotonic() - started, lines

    cold, first = build()
    warm, second = build()
    assert not any("CACHED" in line for line in first if "builder" in line)
    assert sum("CACHED" in line for line in second) == 6
    assert warm < cold - 0.9
    _, forced = build(skip_cache=True)
    assert not any("CACHED" in line for line in forced)


def test_a_changed_file_builds_anew_from_there(context: Path) -> None:
    def template() -> Any:
        made = Template(file_context_path=str(context)).from_template("base")
        return made.run_cmd("true").copy("folder/a.txt", "/a.txt").run_cmd("cat /a.txt")

    Template.build(template(), "sdk-changed")
    (context / "folder" / "a.txt").write_text("changed")
    lines: list[str] = []
    Template.build(template(), "sdk-changed", on_build_logs=lambda e: lines.append(e.message))
    assert any("CACHED RUN true" in line for line in lines)
    assert any("[stdout]: changed" in line for line in lines)


@pytest.mark.long
def test_a_start_command_runs_in_every_sandbox_before_it_is_given_out() -> None:
    template = (
        Template()
        .from_template("base")
        .set_workdir("/srv/www")
        .run_cmd("echo served > page.txt")
        .set_start_cmd(
            "sleep 0.3; exec python3 -m http.server 8123",
            '[ -n "$(ss -Htuln sport = :8123)" ]',
        )
    )
    Template.build(template, "sdk-start")
    Template.build(Template().from_template("sdk-start").run_cmd("true"), "sdk-start-child")
    for name in ("sdk-start", "sdk-start-child"):
        with Sandbox.create(name, timeout=600) as sandbox:
            found = sandbox.commands.run("curl -s http://127.0.0.1:8123/page.txt").stdout
            assert found == "served\n"


def test_a_start_command_that_fails_ends_the_build() -> None:
    template = Template().from_template("base").set_start_cmd("echo no; exit 7", "sleep 30; false")
    with pytest.raises(BuildException, match="start command: command failed: exit status 7"):
        Template.build(template, "sdk-bad-start")


def test_a_build_in_the_background_is_followed_by_its_status() -> None:
    template = Template().from_template("base").run_cmd("echo here")
    built = Template.build_in_background(template, "sdk-background")
    seen: list[str] = []

    def ended() -> str | None:
        status = Template.get_build_status(built, logs_offset=len(seen))
        seen.extend(entry.message for entry in status.log_entries)
        is_last = status.status.value in ("ready", "error") and not status.log_entries
        return status.status.value if is_last else None

    assert until(ended) == "ready"
    assert any("[stdout]: here" in line for line in seen)


def test_a_failed_step_raises_with_its_reason() -> None:
    template = Template().from_template("base").run_cmd("true").run_cmd("exit 4")
    with pytest.raises(BuildException, match="'exit 4': command failed: exit status 4"):
        Template.build(template, "sdk-failing")


def test_names_and_tags_are_known_to_the_client() -> None:
    Template.build(Template().from_template("base"), "sdk-tags:one")
    assert Template.exists("sdk-tags")
    assert not Template.exists("sdk-nothing")
    assigned = Template.assign_tags("sdk-tags:one", ["two", "three"])
    assert assigned.tags == ["two", "three"]
    assert {tag.tag for tag in Template.get_tags("sdk-tags")} == {"one", "two", "three"}
    Template.remove_tags("sdk-tags", ["three"])
    assert {tag.tag for tag in Template.get_tags("sdk-tags")} == {"one", "two"}


def test_a_dockerfile_is_built_through_the_client(context: Path) -> None:
    (context / "Dockerfile").write_text(
        "FROM e2bdev/base\nENV NAME=value\nWORKDIR /opt/app\nCOPY folder ./folder\n"
        "RUN echo $NAME > name.txt && whoami >> name.txt\n"
    )
    template = Template(file_context_path=str(context)).from_dockerfile(str(context / "Dockerfile"))
    Template.build(template, "sdk-dockerfile")
    with Sandbox.create("sdk-dockerfile", timeout=600) as sandbox:
        assert sandbox.commands.run("cat name.txt folder/a.txt").stdout == "value\nroot\nfirst"


def test_the_helpers_of_the_builder_are_steps_that_work(context: Path) -> None:
    template = (
        Template(file_context_path=str(context))
        .from_base_image()
        .copy_items([{"src": "folder/a.txt", "dest": "one"}, {"src": "script.sh", "dest": "two"}])
        .make_dir(["made/deep", "other"], mode=0o750)
        .make_symlink("one", "pointer")
        .rename("other", "renamed")
        .remove("two")
        .run_cmd("ls > listed && cat pointer >> listed && stat -c %a renamed >> listed")
    )
    Template.build(template, "sdk-helpers")
    with Sandbox.create("sdk-helpers", timeout=600) as sandbox:
        said = sandbox.commands.run("cat listed").stdout.split()
    assert said == ["listed", "made", "one", "pointer", "renamed", "first750"]


def test_steps_after_a_mark_are_not_taken_from_the_cache() -> None:
    def build(template: Any) -> list[bool]:
        lines: list[str] = []
        Template.build(template, "sdk-half", on_build_logs=lambda e: lines.append(e.message))
        return ["CACHED" in line for line in lines if " RUN " in line]

    build(Template().from_template("base").run_cmd("true").run_cmd("id"))
    marked = Template().from_template("base").run_cmd("true").skip_cache().run_cmd("id")
    assert build(marked) == [True, False]
    assert Template.alias_exists("sdk-half")


@pytest.mark.long
@pytest.mark.parametrize(
    ("ready", "name"),
    [
        (wait_for_port(8123), "port"),
        (wait_for_url("http://localhost:8123/", 200), "url"),
        (wait_for_process("python3"), "process"),
        (wait_for_file("/tmp/ready"), "file"),
        (wait_for_timeout(2_000), "timeout"),
    ],
)
def test_each_way_to_be_ready_is_awaited(ready: ReadyCmd, name: str) -> None:
    command = "touch /tmp/ready; cd /srv; exec python3 -m http.server 8123"
    template = Template().from_template("base").set_start_cmd(command, ready)
    Template.build(template, f"sdk-ready-{name}")
    with Sandbox.create(f"sdk-ready-{name}", timeout=600) as sandbox:
        assert sandbox.commands.run("test -e /tmp/ready; pgrep -f http.server").stdout


@pytest.mark.long
def test_a_wait_for_time_ends_in_a_sandbox_once_its_server_listens(engine: EngineProcess) -> None:
    """The wait is for the moment that hosted sandboxes begin with; ours need not sit it out."""
    template = Template().from_template("base")
    template = template.set_start_cmd(
        "sleep 0.5; exec python3 -m http.server 8123", wait_for_timeout(3_000)
    )
    lines: list[str] = []
    built = Template.build(template, "sdk-timed", on_build_logs=lambda e: lines.append(e.message))
    assert any("wait until something listens on port 8123" in line for line in lines)
    assert waits_for_port(engine, built.build_id, 8123)
    with Sandbox.create("sdk-timed", timeout=600) as sandbox:
        assert sandbox.commands.run("curl -sf http://127.0.0.1:8123/").exit_code == 0
    silent = Template().from_template("base").set_start_cmd("sleep 60", wait_for_timeout(1_000))
    built = Template.build(silent, "sdk-silent")
    assert not waits_for_port(engine, built.build_id, 8123)


async def test_the_asynchronous_client_builds_as_the_other_does() -> None:
    lines: list[str] = []
    template = AsyncTemplate().from_template("base").run_cmd("echo here too")
    built = await AsyncTemplate.build(
        template, "sdk-async:one", on_build_logs=lambda e: lines.append(e.message)
    )
    assert any("[stdout]: here too" in line for line in lines)
    background = await AsyncTemplate.build_in_background(template, "sdk-async")
    assert background.template_id == built.template_id
    status = await AsyncTemplate.get_build_status(background)
    assert status.build_id == background.build_id
    assert await AsyncTemplate.exists("sdk-async:one")
    assert {tag.tag for tag in await AsyncTemplate.get_tags("sdk-async")} >= {"one"}


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs the Debian package busybox-static")
def test_an_image_of_a_tar_and_of_a_registry_is_the_ground_of_a_template(
    api: Api, tmp_path: Path
) -> None:
    image = TinyImage("zstd")
    sent = api.client.put("/engine/images/sdk-saved:v2", content=image.saved())
    assert sent.status_code == 201, sent.text
    with serve_registry(tmp_path) as (host, _):
        push(host, image)
    with serve_registry(tmp_path, htpasswd(tmp_path, "me", "secret")) as (host, _):
        grounds = {
            "sdk-saved": Template().from_image("sdk-saved:v2"),
            "sdk-pulled": Template().from_image(f"{host}/tiny:v1", "me", "secret"),
        }
        for name, ground in grounds.items():
            Template.build(ground.run_cmd("cat /srv/dir/new > ~/copy"), name)
            with Sandbox.create(name, timeout=600) as sandbox:
                assert sandbox.commands.run("cat ~/copy; echo $GREETING").stdout == "newhello\n"
        with pytest.raises(BuildException, match="refuses access"):
            Template.build(Template().from_image(f"{host}/tiny:v1"), "sdk-pulled")
