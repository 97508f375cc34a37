"""Sandboxes of another connection than the notebook's own."""

from __future__ import annotations

import json


def test_magics_take_a_connection_by_its_name(kernel, engine, tmp_path):
    # The same engine under another address counts as another deployment.
    url = engine.url.replace("127.0.0.1", "localhost")
    connection = {"api_url": url, "sandbox_url": url, "api_key": engine.key}
    settings = {"SbxExtension": {"connections": {"lab": connection}}}
    (tmp_path / "jupyter_server_config.json").write_text(json.dumps(settings))
    kernel.run(f"import os; os.environ['JUPYTER_CONFIG_DIR'] = {str(tmp_path)!r}")
    kernel.run("%sbx create ours")
    try:
        made = kernel.run("%sbx create theirs --connection lab")
        ran = kernel.run("%%sbx theirs\nprint('there')")
        other = kernel.run("%sbx use ours\n%sbx list --connection lab")
        mixed = kernel.run("%%sbx --connection lab\nprint('nowhere')")
        unknown = kernel.run("%%sbx --connection nope\nprint('nowhere')")
    finally:
        kernel.run("del os.environ['JUPYTER_CONFIG_DIR']\n%sbx kill ours theirs")

    assert "created theirs" in made.stdout
    assert ran.stdout == "there\n"
    assert "theirs" in other.displayed[0]["text/plain"]
    assert "ours, is on another connection" in mixed.error
    assert "there is no connection 'nope'; there are: local, lab" in unknown.error
    assert "nowhere" not in mixed.stdout + unknown.stdout
    assert engine.key not in str((made.outputs, mixed.outputs, unknown.outputs))
