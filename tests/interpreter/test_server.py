"""The routes and the stream of the interpreter, as any client sees them (interface 5)."""

from __future__ import annotations

import ast
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.interpreter.program_kernels import name_nul_runs
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from tests.interpreter.conftest import client_of
from tests.waiting import until, until_equal


def execute(http, code, **options):
    """The events of an execution, without the signs of life of a busy machine."""
    events = execute_in_full(http, code, **options)
    return [event for event in events if event["type"] != "keepalive"]


def execute_in_full(http, code, **options):
    answer = http.post("/execute", json={"code": code} | options)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_it_starts_when_it_is_first_asked_and_is_healthy(http):
    assert http.get("/health").json() == "OK"


def test_an_execution_begins_with_its_number_and_ends_with_its_end(http):
    events = execute(http, "print('hi')\n'text'")

    assert [event["type"] for event in events] == [
        "number_of_executions",
        "stdout",
        "result",
        "end_of_execution",
    ]
    assert events[0]["execution_count"] == 1
    assert events[1]["text"] == "hi\n"
    assert "T" in events[1]["timestamp"]
    assert events[2] == {"type": "result", "is_main_result": True, "text": "text"}
    assert execute(http, "1")[0]["execution_count"] == 2


@pytest.mark.long
def test_silence_is_broken_by_keepalives(http):
    events = execute_in_full(http, "import time; time.sleep(6)")

    assert {"type": "keepalive"} in events


def test_a_context_is_made_listed_restarted_and_removed(http):
    made = http.post("/contexts", json={"cwd": "/tmp"}).json()

    assert (made["language"], made["cwd"]) == ("python", "/tmp")
    assert made in http.get("/contexts").json()
    assert execute(http, "x = 1; x", context_id=made["id"])[1]["text"] == "1"
    restarted = http.post(f"/contexts/{made['id']}/restart")
    assert (restarted.status_code, restarted.json()) == (200, None)
    removed = http.delete(f"/contexts/{made['id']}")
    assert (removed.status_code, removed.json()) == (200, None)
    assert made not in http.get("/contexts").json()


def test_an_unknown_context_is_not_found(http):
    for answer in (
        http.post("/execute", json={"code": "1", "context_id": "nowhere"}),
        http.post("/contexts/nowhere/restart"),
        http.delete("/contexts/nowhere"),
    ):
        assert (answer.status_code, answer.text) == (404, "Context nowhere not found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"code": "1", "context_id": "a", "language": "python"}', 400),
        (b"no json", 422),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"code": 5}', 422),
        (b'{"code": "1", "env_vars": {"A": 1}}', 422),
        (b'{"code": "1", "language": "cobol"}', 500),
        (b'{"code": "1", "language": "java"}', 500),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(http, body, status):
    answer = http.post("/execute", content=body)

    assert answer.status_code == status
    assert answer.text


def test_a_context_in_a_missing_directory_is_refused(http):
    answer = http.post("/contexts", json={"cwd": "/missing"})

    assert (answer.status_code, answer.text) == (500, "cwd '/missing' does not exist")


@pytest.mark.parametrize(
    ("code", "missing"), [("1 + 1", None), ("raise ValueError('x')", "result"), ("", "result")]
)
def test_every_outcome_ends_the_stream(http, code, missing):
    events = execute(http, code)

    assert events[-1] == {"type": "end_of_execution"}
    assert missing not in [event["type"] for event in events]


def test_names_of_languages_are_lenient(http):
    assert execute(http, "1 + 1", language=" Python ")[1]["text"] == "2"
    assert execute(http, "1 + 1", language="JS")[1]["text"] == "2"


def test_long_output_arrives_whole(http):
    events = execute(http, "for i in range(20000): print(i, 'x' * 50)")

    text = "".join(event["text"] for event in events if event["type"] == "stdout")
    assert len(text.splitlines()) == 20000


def test_one_enormous_piece_of_output_comes_in_several_events(http):
    events = execute(http, "import sys; _ = sys.stdout.write('x' * 5_000_000)")

    texts = [event["text"] for event in events if event["type"] == "stdout"]
    assert sum(map(len, texts)) == 5_000_000
    assert max(map(len, texts)) <= 1024 * 1024


def test_a_kernel_killed_from_outside_is_reported(http, sandbox):
    code = "import time, os; print(os.getpid(), flush=True); time.sleep(60)"
    with http.stream("POST", "/execute", json={"code": code}) as answer:
        lines = answer.iter_lines()
        pid = next(json.loads(line)["text"] for line in lines if '"stdout"' in line)
        sandbox.commands.run(f"kill -9 {pid}")
        events = [json.loads(line) for line in lines]

    assert events[0]["name"] == "ContextRestarting"
    assert events[-1] == {"type": "end_of_execution"}
    again = execute(http, "2 + 2")
    assert "4" in [event.get("text") for event in again], again


@pytest.mark.long
def test_an_interpreter_that_was_killed_is_started_again(http, sandbox):
    execute(http, "x = 1")
    sandbox.commands.run("pkill -9 -f sbx-interpreter.pyz", user="root")

    def executed():
        answer = http.post("/execute", json={"code": "x"})
        return answer.text if answer.status_code == 200 else None

    assert "NameError" in until(executed, step=0.1)


def test_packages_installed_by_the_user_can_be_imported(http, sandbox):
    site = sandbox.commands.run("mkdir -p own && echo value = 5 > own/__init__.py")
    assert site.exit_code == 0

    assert execute(http, "import own; own.value")[1]["text"] == "5"


def test_bash_is_interrupted_when_its_client_leaves(http):
    context = http.post("/contexts", json={"language": "bash"}).json()["id"]
    body = {"code": "kept=yes; echo started; sleep 1000; echo never", "context_id": context}
    with http.stream("POST", "/execute", json=body) as answer:
        assert any('"stdout"' in line for line in answer.iter_lines())

    assert execute(http, "echo $kept", context_id=context)[1]["text"] == "yes\n"


def test_javascript_is_interrupted_when_its_client_leaves(http):
    context = http.post("/contexts", json={"language": "js"}).json()["id"]
    body = {"code": "console.log('started'); while (true) {}", "context_id": context}
    with http.stream("POST", "/execute", json=body) as answer:
        assert any('"stdout"' in line for line in answer.iter_lines())

    assert execute(http, "6 * 7", context_id=context)[1]["text"] == "42"


def test_bash_says_how_it_ended_and_starts_anew(http):
    events = execute(http, "exit 4", language="bash")

    assert events[1]["name"] == "KernelRestarted"
    assert execute(http, "echo again", language="bash")[1]["text"] == "again\n"


@pytest.mark.parametrize("language", ["bash", "js"])
def test_code_with_a_nul_character_is_refused_and_the_next_runs(http, language):
    events = execute(http, "1\0 2", language=language)

    assert (events[1]["name"], events[-1]["type"]) == ("SyntaxError", "end_of_execution")
    said = execute(http, "echo 3" if language == "bash" else "3", language=language)
    assert said[1]["text"].strip() == "3"


@pytest.mark.long
def test_long_code_reaches_bash_whole(http):
    code = f"echo {'x' * 300_000} | wc -c"

    assert execute(http, code, language="bash")[1]["text"].strip() == "300001"


def test_the_second_execution_takes_a_fraction_of_a_second(http):
    execute(http, "1")
    taken = []
    for _ in range(10):
        started = time.monotonic()
        execute(http, "2")
        taken.append(time.monotonic() - started)

    assert min(taken) < 0.5  # the others may have met a busy machine


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        ("throw new RangeError('far')", "RangeError", "far"),
        ("await Promise.reject(new Error('later'))", "Error", "later"),
        ("foo(", "SyntaxError", None),
        ("throw 'text'", "Error", "'text'"),
    ],
)
def test_what_javascript_throws_is_an_error(http, code, name, value):
    event = execute(http, code, language="js")[1]

    assert (event["type"], event.get("name")) == ("error", name), event
    assert value is None or event["value"] == value


def test_what_javascript_throws_after_its_end_is_not_lost(http):
    events = execute(http, "setTimeout(() => { throw new Error('late'); }, 50); 1", language="js")
    events += execute(http, "await new Promise((r) => setTimeout(r, 200))", language="js")

    # An error of the execution that it happened to hit, else a line on stderr.
    assert any(event["type"] in ("stderr", "error") and "late" in str(event) for event in events)


def test_long_runs_of_nul_bytes_are_named_and_others_kept():
    """As JSON they would fill the memory of the sandbox."""
    said = name_nul_runs(b"a\0b" + bytes(48_000) + b"c" + bytes(255))
    assert said == b"a\0b[48000 NUL bytes]c" + bytes(255)


def test_all_that_bash_prints_belongs_to_the_execution_that_printed_it(http):
    for number in range(20):
        events = execute(
            http, f"head -c 200000 /dev/zero | tr '\\0' {number % 10}", language="bash"
        )

        text = "".join(event["text"] for event in events if event["type"] == "stdout")
        assert text == str(number % 10) * 200_000


@pytest.mark.long
def test_an_execution_that_waits_for_its_turn_gives_signs_of_life(http):
    body = {"code": "import time; print(1, flush=True); time.sleep(7)"}
    with http.stream("POST", "/execute", json=body) as first:
        lines = first.iter_lines()
        assert any('"stdout"' in line for line in lines)
        events = execute_in_full(http, "2 + 2")

    assert events[0] == {"type": "keepalive"}
    assert [event["type"] for event in events if event["type"] != "keepalive"] == [
        "number_of_executions",
        "result",
        "end_of_execution",
    ]


def connections(sandbox):
    """How many connections the interpreter of a sandbox has."""
    listed = sandbox.commands.run("cat /proc/net/tcp").stdout.splitlines()
    ends = [line.split()[1:4:2] for line in listed]
    return sum(end == [f"0100007F:{INTERPRETER_PORT:04X}", "01"] for end in ends)


def test_executions_of_one_context_keep_their_order(http, sandbox):
    wait = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\n"
    code = "made = [*globals().get('made', ()), {}]"
    execute(http, "1")
    before = connections(sandbox)
    with ThreadPoolExecutor(6) as pool:
        waiting = []
        for number in range(6):
            waiting.append(pool.submit(execute, http, wait + code.format(number)))
            until_equal(lambda: connections(sandbox), before + number + 1)
        sandbox.files.write("/tmp/go", "")
        for each in waiting:
            each.result()

    assert execute(http, "made")[1]["text"] == "[0, 1, 2, 3, 4, 5]"


def test_an_execution_that_waits_in_a_removed_context_ends_without_a_kernel(http, sandbox):
    context = http.post("/contexts", json={}).json()["id"]
    with ThreadPoolExecutor(2) as pool:
        code = "open('/tmp/begun', 'w'); import time; time.sleep(60)"
        running = pool.submit(http.post, "/execute", json={"code": code, "context_id": context})
        sandbox.commands.run("until [ -e /tmp/begun ]; do sleep 0.05; done")
        before = connections(sandbox)
        waiting = pool.submit(http.post, "/execute", json={"code": "1", "context_id": context})
        # It waits from then on, or comes to a context that is gone: the answer is one.
        until_equal(lambda: connections(sandbox), before + 1)
        assert http.delete(f"/contexts/{context}").status_code == 200
        said = [json.loads(line) for line in running.result().text.splitlines()]

        assert said[-2]["name"] == "ContextRestarting"
        assert (waiting.result().status_code, waiting.result().text) == (
            404,
            f"Context {context} not found",
        )


def test_a_client_that_leaves_while_it_waits_frees_its_place(http):
    body = {"code": "import time; print(1, flush=True); time.sleep(3)"}
    with http.stream("POST", "/execute", json=body) as first:
        lines = first.iter_lines()
        assert any('"stdout"' in line for line in lines)
        with pytest.raises(httpx.ReadTimeout):
            http.post("/execute", json={"code": "raise SystemError"}, timeout=0.5)
        assert [json.loads(line)["type"] for line in lines] == ["end_of_execution"]

    assert execute(http, "3 * 3")[1]["text"] == "9"


def test_kernels_have_the_variables_of_the_sandbox(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    code = "import os; {n: os.environ.get(n) for n in ('GIVEN', 'HOME', 'E2B_SANDBOX_ID')}"
    with (
        Sandbox.create(config=config, timeout=120, envs={"GIVEN": "on creation"}) as sandbox,
        client_of(shared_engine, sandbox) as http,
    ):
        events = execute(http, code)
        bash = execute(http, "echo $GIVEN", language="bash")

    assert ast.literal_eval(events[1]["text"]) == {
        "GIVEN": "on creation",
        "HOME": "/home/user",
        "E2B_SANDBOX_ID": sandbox.sandbox_id,
    }
    assert bash[1]["text"] == "on creation\n"
