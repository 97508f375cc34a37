"""What the engine writes about itself is useful and holds nothing that opens a door."""

from __future__ import annotations

from tests.faults.witnesses import Witnesses
from tests.faults.world import World


def test_metrics_tell_how_many_sandboxes_are_in_each_state(world: World, witnesses: Witnesses):
    text = world.ask("GET", "/engine/metrics").text

    assert 'sbx_sandboxes{state="running"} 1.0\n' in text
    assert 'sbx_sandboxes{state="paused_full"} 1.0\n' in text
    assert 'sbx_sandboxes{state="paused_filesystem"} 1.0\n' in text


def test_logs_and_metrics_hold_no_key_and_no_token(world: World, witnesses: Witnesses):
    tokens = [said.get("envdAccessToken") for said in world.sandboxes.values()]
    secrets = {world.engine.connection.api_key} | {token for token in tokens if token is not None}
    volume = world.ask("GET", f"/volumes/{witnesses.volume}").json()["token"]
    secrets.add(volume)
    world.client.get(f"/files?path=/x&signature={volume}")

    written = world.ask("GET", "/engine/metrics").text + world.engine.log.read_text()
    for path in (world.engine.data_dir / "log").iterdir():
        written += path.read_text()

    assert "sbx_requests_total" in written
    assert len(secrets) > 3
    assert not [secret for secret in secrets if secret in written]
