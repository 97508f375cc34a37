"""The interpreter comes back when it was killed, and a killed sandbox looks like one."""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.waiting import until

HEALTH = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:49999/health').read())\""
OLD_ENOUGH = "while [ $(ps -o etimes= -p $(pgrep -of interpreter.pyz)) -lt 3 ]; do sleep 0.1; done"


@pytest.mark.long
def test_a_killed_interpreter_comes_back_for_callers_inside(http, sandbox):
    assert http.get("/health").status_code == 200

    killed = sandbox.commands.run(f"{OLD_ENOUGH}; pkill -9 -of interpreter.pyz")
    assert killed.exit_code == 0

    until(
        lambda: "OK" in sandbox.commands.run(f"{HEALTH} 2>/dev/null || true").stdout,
        message="the interpreter does not come back",
        step=0.2,
    )


def test_a_sandbox_that_is_killed_in_mid_answer_resets_the_connection(http, sandbox):
    body = {"code": "import time; print('on', flush=True); time.sleep(60)"}

    with http.stream("POST", "/execute", json=body) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        sandbox.kill()
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            list(lines)


def test_a_server_that_is_killed_with_its_sandbox_before_it_answered_is_a_reset(http, sandbox):
    sandbox.commands.run(
        "python3 -c \"import socket, time; s = socket.create_server(('0.0.0.0', 8123)); "
        "c = s.accept(); open('/tmp/accepted', 'w').close(); time.sleep(60)\"",
        background=True,
    )
    headers = {**dict(http.headers), "e2b-sandbox-port": "8123"}
    until(lambda: sandbox.commands.run("ss -Htln sport = :8123").stdout)
    killer = threading.Thread(
        target=lambda: (until(lambda: sandbox.files.exists("/tmp/accepted")), sandbox.kill())
    )
    killer.start()

    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        httpx.get(http.base_url, headers=headers, trust_env=False, timeout=30)
    killer.join(30)
