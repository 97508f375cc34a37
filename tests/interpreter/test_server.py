"""The routes and the stream of the interpreter, as any client sees them (interface 5)."""

from __future__ import annotations

import json
import time

import pytest


def execute(http, code, **options):
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


def test_silence_is_broken_by_keepalives(http):
    events = execute(http, "import time; time.sleep(6)")

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


def test_a_kernel_killed_from_outside_is_reported(http, sandbox):
    code = "import time, os; print(os.getpid(), flush=True); time.sleep(60)"
    with http.stream("POST", "/execute", json={"code": code}) as answer:
        lines = answer.iter_lines()
        pid = next(json.loads(line)["text"] for line in lines if '"stdout"' in line)
        sandbox.commands.run(f"kill -9 {pid}")
        events = [json.loads(line) for line in lines]

    assert events[0]["name"] == "ContextRestarting"
    assert events[-1] == {"type": "end_of_execution"}
    assert execute(http, "2 + 2")[1]["text"] == "4"


def test_an_interpreter_that_was_killed_is_started_again(http, sandbox):
    execute(http, "x = 1")
    sandbox.commands.run("pkill -9 -f sbx-interpreter.pyz", user="root")
    deadline = time.monotonic() + 10
    while (answer := http.post("/execute", json={"code": "x"})).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)

    assert "NameError" in answer.text


def test_packages_installed_by_the_user_can_be_imported(http, sandbox):
    site = sandbox.commands.run("mkdir -p own && echo value = 5 > own/__init__.py")
    assert site.exit_code == 0

    assert execute(http, "import own; own.value")[1]["text"] == "5"


def test_bash_is_interrupted_when_its_client_leaves(http):
    context = http.post("/contexts", json={"language": "bash"}).json()["id"]
    body = {"code": "kept=yes; echo started; sleep 100; echo never", "context_id": context}
    with http.stream("POST", "/execute", json=body) as answer:
        assert any('"stdout"' in line for line in answer.iter_lines())

    started = time.monotonic()
    events = execute(http, "echo $kept", context_id=context)

    assert events[1]["text"] == "yes\n"
    assert time.monotonic() - started < 5


def test_javascript_is_interrupted_when_its_client_leaves(http):
    context = http.post("/contexts", json={"language": "js"}).json()["id"]
    body = {"code": "console.log('started'); while (true) {}", "context_id": context}
    with http.stream("POST", "/execute", json=body) as answer:
        assert any('"stdout"' in line for line in answer.iter_lines())

    started = time.monotonic()
    events = execute(http, "6 * 7", context_id=context)

    assert events[1]["text"] == "42"
    assert time.monotonic() - started < 8


def test_bash_says_how_it_ended_and_starts_anew(http):
    events = execute(http, "exit 4", language="bash")

    assert events[1]["name"] == "KernelRestarted"
    assert execute(http, "echo again", language="bash")[1]["text"] == "again\n"


def test_the_second_execution_takes_a_fraction_of_a_second(http):
    execute(http, "1")
    started = time.monotonic()

    execute(http, "2")

    assert time.monotonic() - started < 0.5


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

    assert (event["type"], event["name"]) == ("error", name)
    assert value is None or event["value"] == value


def test_what_javascript_throws_after_its_end_is_not_lost(http):
    events = execute(http, "setTimeout(() => { throw new Error('late'); }, 50); 1", language="js")
    events += execute(http, "await new Promise((r) => setTimeout(r, 200))", language="js")

    # An error of the execution that it happened to hit, else a line on stderr.
    assert any(event["type"] in ("stderr", "error") and "late" in str(event) for event in events)


def test_all_that_bash_prints_belongs_to_the_execution_that_printed_it(http):
    for number in range(20):
        events = execute(
            http, f"head -c 200000 /dev/zero | tr '\\0' {number % 10}", language="bash"
        )

        text = "".join(event["text"] for event in events if event["type"] == "stdout")
        assert text == str(number % 10) * 200_000
