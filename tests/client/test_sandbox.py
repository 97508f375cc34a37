"""The life of a sandbox through our client."""

from __future__ import annotations

import uuid

import httpx
import pytest

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.errors import (
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from tests.waiting import PATIENCE, async_until


async def test_a_created_sandbox_is_described_as_it_was_asked_for(platform):
    async with await AsyncSandbox.create(
        platform=platform, timeout=600, metadata={"a b": "c&d"}, envs={"X": "1"}
    ) as sandbox:
        info = await sandbox.info()
        result = await sandbox.commands.run("echo $X")

    assert (info.metadata, info.state) == ({"a b": "c&d"}, "running")
    assert result.stdout == "1\n"


async def test_sandboxes_are_found_by_metadata_over_several_pages(platform):
    mark = {"mark &=%": uuid.uuid4().hex}
    created = [
        await AsyncSandbox.create(platform=platform, timeout=600, metadata=mark) for _ in range(3)
    ]

    found = [item.sandbox_id async for item in platform.list(metadata=mark, page_size=2)]

    for sandbox in created:
        await sandbox.kill()
    assert sorted(found) == sorted(sandbox.sandbox_id for sandbox in created)
    assert await AsyncSandbox.list(metadata=mark, platform=platform) == []


async def test_leaving_the_context_kills_the_sandbox(platform):
    async with await AsyncSandbox.create(platform=platform, timeout=600) as sandbox:
        assert await sandbox.is_running()

    assert not await sandbox.is_running()
    assert await sandbox.kill() is False
    with pytest.raises(NotFoundError):
        await AsyncSandbox.connect(sandbox.sandbox_id, platform=platform)


async def test_a_paused_sandbox_wakes_with_its_files(sandbox, platform):
    await sandbox.files.write("kept", "yes")

    assert await sandbox.pause() is True
    assert await sandbox.pause() is False
    assert (await sandbox.info()).state == "paused"
    await sandbox.resume(timeout=600)

    again = await AsyncSandbox.connect(sandbox.sandbox_id, platform=platform)
    assert await again.files.read("kept") == "yes"


async def has_ended(sandbox):
    return not await sandbox.is_running()


async def test_a_timeout_ends_the_sandbox(sandbox):
    await sandbox.set_timeout(1)

    await async_until(lambda: has_ended(sandbox))

    with pytest.raises(NotFoundError):
        await sandbox.commands.run("true")


async def test_the_engine_says_how_it_isolates(sandbox):
    described = await sandbox.isolation()

    assert described["tier"] in ("namespaces", "landlock", "none")


async def test_the_tier_is_the_one_in_use(sandbox, monkeypatch):
    async def described():
        return {"tier": "landlock", "isolation": {"tier": "namespaces", "users": "virtual"}}

    monkeypatch.setattr(sandbox.platform, "engine_info", described)

    assert await sandbox.isolation() == {"tier": "landlock", "users": "virtual"}


async def test_readings_have_a_total_that_holds_what_is_used(sandbox):
    reading = await sandbox.metrics()

    assert 0 < reading.mem_used <= reading.mem_total
    assert reading.disk_total > 0


async def test_a_missing_template_is_not_found(platform):
    with pytest.raises(NotFoundError, match="no-such-template"):
        await AsyncSandbox.create("no-such-template", platform=platform)


async def test_a_wrong_key_is_unauthenticated(config):
    wrong = ConnectionConfig(api_url=config.api_url, api_key="e2b_" + "0" * 40)

    with pytest.raises(UnauthenticatedError):
        await AsyncSandbox.create(config=wrong)


async def test_an_engine_that_is_not_there_is_unavailable():
    nowhere = ConnectionConfig(api_url="http://127.0.0.1:1", api_key="e2b_00", attempts=2)

    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        await AsyncSandbox.create(config=nowhere)


async def test_a_port_of_the_sandbox_is_reached_by_its_host(sandbox, config):
    await sandbox.commands.run(
        "echo served > page; exec python3 -m http.server 8123", background=True, timeout=0
    )
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:

        async def served_page():
            answer = await http.get(
                f"{config.api_url}/page", headers={"Host": sandbox.get_host(8123)}
            )
            return answer.text if answer.status_code == 200 else None

        assert await async_until(served_page) == "served\n"


async def test_nothing_that_is_shown_holds_a_credential(sandbox, config):
    token = sandbox.record.envd_access_token
    shown = " ".join(map(repr, (sandbox, sandbox.record, config, await sandbox.info())))

    assert token
    assert token not in shown
    assert config.api_key not in shown
    assert sandbox.sandbox_id in shown


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(config, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async with await AsyncSandbox.create(config=config, timeout=600) as sandbox:
        assert await sandbox.is_running()
