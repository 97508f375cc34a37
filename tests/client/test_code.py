"""Code in the contexts of a sandbox, with our own client."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import threading
import time

import pytest

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, Sandbox
from sbx_jupyter.client.api.runtime import RuntimeClient
from sbx_jupyter.client.api.transport import Transport
from sbx_jupyter.client.code.events import LineDecoder, decode_event, is_end
from sbx_jupyter.client.code.execution import (
    Chart,
    ExecutionError,
    OutputMessage,
    Recorder,
    Result,
)
from sbx_jupyter.client.code.runner import CodeRunner
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)


@pytest.fixture(scope="module")
def box(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    with Sandbox.create("code-interpreter-v1", timeout=3600, config=config) as created:
        yield created


def test_the_value_of_the_last_line_is_the_main_result(box):
    execution = box.run_code("x = 20\nx + 22")

    assert execution.text == "42"
    assert execution.results[0].is_main_result
    assert (execution.error, execution.truncated) == (None, False)
    assert execution.execution_count is not None


def test_variables_stay_until_the_context_is_restarted(box):
    context = box.create_code_context(cwd="/tmp")
    box.run_code("kept = 'a string'", context=context)

    assert box.run_code("kept", context=context).text == "a string"
    assert box.run_code("import os; os.getcwd()", context=context.id).text == "/tmp"
    box.restart_code_context(context)
    assert box.run_code("kept", context=context).error.name == "NameError"
    box.remove_code_context(context)
    with pytest.raises(NotFoundError, match="not found"):
        box.run_code("1", context=context)


def test_contexts_are_listed_with_their_languages(box):
    languages = {context.language for context in box.list_code_contexts()}

    assert {"python", "javascript"} <= languages


def test_callbacks_run_on_the_calling_thread_as_the_output_comes(box):
    seen = []
    code = (
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\n"
        "from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\n1 / 0"
    )

    def note(event):
        seen.append((threading.current_thread(), event))

    execution = box.run_code(code, on_stdout=note, on_stderr=note, on_result=note, on_error=note)

    assert {thread for thread, _ in seen} == {threading.current_thread()}
    kinds = [type(event) for _, event in seen]
    assert set(kinds) == {OutputMessage, Result, ExecutionError}
    assert ("out\n", False) in [(str(e), e.error) for _, e in seen if isinstance(e, OutputMessage)]
    assert execution.results[0].html == "<b>x</b>"
    assert "".join(execution.logs.stderr) == "err\n"
    assert (execution.error.name, execution.error.value) == (
        "ZeroDivisionError",
        "division by zero",
    )


def test_other_languages_have_contexts_of_their_own(box):
    assert box.run_code("greeting=hi; echo $greeting", language="bash").logs.stdout == ["hi\n"]
    assert box.run_code("[1, 2].map(n => n * 2)", language="js").text == "[ 2, 4 ]"
    with pytest.raises(InternalError, match="no kernel for r is installed"):
        box.run_code("1", language="r")


def test_variables_of_the_environment_are_for_one_execution(box):
    show = "import os; repr(os.environ.get('LOCAL'))"

    assert box.run_code(show, envs={"LOCAL": "here"}).text == "'here'"
    assert box.run_code(show).text == "None"


def test_code_beyond_its_time_is_interrupted_and_the_context_is_free_again(box):
    context = box.create_code_context()

    with pytest.raises(DeadlineExceededError, match="longer than"):
        box.run_code("import time\ntime.sleep(1000)", context=context, timeout=0.5)

    assert box.run_code("'free'", context=context).text == "free"


def test_a_language_and_a_context_at_once_are_refused(box):
    with pytest.raises(InvalidArgumentError, match="not both"):
        box.run_code("1", language="python", context="any")


def test_a_figure_has_a_chart_with_attributes(box):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='a')\nplt.show()"

    [result] = box.run_code(code, timeout=60).results

    assert result.chart.type == "line"
    assert result.chart.elements[0].points == [[1.0, 3.0], [2.0, 4.0]]
    assert "png" in result.formats()
    with pytest.raises(AttributeError, match="no 'colour'"):
        _ = result.chart.colour


def test_a_sandbox_that_has_ended_is_not_found(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    with Sandbox.create(timeout=600, config=config) as ended:
        pass

    with pytest.raises(NotFoundError, match="not found"):
        ended.run_code("1")


def test_a_sandbox_that_ends_while_code_runs_is_an_error_and_no_wait(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    with Sandbox.create("code-interpreter-v1", timeout=600, config=config) as ending:
        began = time.monotonic()

        with pytest.raises((UnavailableError, NotFoundError)):
            ending.run_code(
                "print('running', flush=True)\nimport time\ntime.sleep(1000)",
                on_stdout=lambda _: ending.kill(),
            )

        assert time.monotonic() - began < 30


async def test_the_asynchronous_sandbox_awaits_its_callbacks(platform):
    heard = []

    async def hear(message):
        heard.append(message.line)

    async with await AsyncSandbox.create(platform=platform, timeout=600) as sandbox:
        context = await sandbox.create_code_context(language="bash")
        execution = await sandbox.run_code("echo one", context=context, on_stdout=hear)
        await sandbox.remove_code_context(context)

    assert heard == execution.logs.stdout == ["one\n"]


async def test_a_measured_run_says_what_it_used(platform):
    async with await AsyncSandbox.create(platform=platform, timeout=600) as sandbox:
        await sandbox.run_code("1")
        stream = await sandbox.start_code(
            "open('/tmp/new', 'w').write('x'); sum(range(3_000_000))", measure="changes"
        )
        async with contextlib.aclosing(stream):
            while await stream.receive() is not None:
                assert stream.usage is None

    assert stream.usage is not None
    assert stream.usage.diff is not None
    assert stream.usage.cpu_ns is None or stream.usage.cpu_ns > 1_000_000
    assert "/tmp/new" in [change.path for change in stream.usage.diff.changes]


def test_a_report_runs_nothing_of_the_sandbox_in_the_page():
    recorder = Recorder()
    recorder.add(OutputMessage("<script>1</script>", ""))
    recorder.add(Result(html="<img onerror='x'>", text="t"))
    recorder.add(ExecutionError("<b>", "v", ""))

    report = recorder.finish()._repr_html_()

    assert "<script>" not in report.replace("srcdoc", "")
    assert "<img" not in report
    assert 'sandbox="allow-scripts"' in report
    assert "&lt;b&gt;" in report


def test_an_execution_keeps_the_end_of_endless_output(monkeypatch):
    monkeypatch.setattr("sbx_jupyter.client.code.execution.LOG_LIMIT", 10)
    recorder = Recorder()

    for piece in ("12345", "67890", "abc", "a longer one than the limit"):
        recorder.add(OutputMessage(piece, ""))

    execution = recorder.finish()
    assert execution.logs.stdout == [" the limit"]
    assert execution.truncated


@pytest.mark.parametrize("line", [b"no json", b"[1]", b"[" * 100_000, b'"\xff"'])
def test_a_line_that_is_no_event_is_an_error(line):
    with pytest.raises(UnavailableError, match="something else"):
        decode_event(line)


def test_fields_of_the_wrong_kind_become_text():
    line = b'{"type": "result", "text": {"a": 1}, "html": 5, "chart": 3, "extra": [], "png": null}'

    assert decode_event(line) == Result(text='{"a":1}', html="5")
    assert decode_event(b'{"type": "stdout"}') == OutputMessage("", "")
    assert decode_event(b'{"type": "keepalive"}') is None
    assert is_end(b'{"type":"end_of_execution"}')


def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr("sbx_jupyter.client.code.events.MAX_LINE", 100)
    lines = LineDecoder()

    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o\n") == [b"two"]
    with pytest.raises(ResourceExhaustedError, match="a single output"):
        lines.feed(b"x" * 101)


def test_the_fields_of_a_chart_are_attributes_at_every_depth():
    chart = Chart({"type": "superchart", "elements": [{"type": "pie"}]})

    assert chart.elements[0].type == "pie"
    assert chart.to_dict()["type"] == "superchart"


async def call_instead(answer: bytes, *, is_endless: bool = False) -> None:
    """List the contexts of what answers in place of the interpreter."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + answer)
        with contextlib.suppress(ConnectionError):
            while is_endless:
                writer.write(b" " * 65536)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        served.set()

    served = asyncio.Event()

    class Runner(CodeRunner):
        def __init__(self, runtime: RuntimeClient) -> None:
            self._runtime = runtime

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = Transport(ConnectionConfig(url, "a-key", sandbox_url=url))
    try:
        async with server, asyncio.timeout(30):
            await Runner(RuntimeClient(transport, "i1", access_token=None)).list_code_contexts()
    finally:
        await transport.aclose()
        await served.wait()


async def test_an_endless_answer_in_place_of_the_interpreter_is_given_up():
    with pytest.raises(UnavailableError, match="more than expected"):
        await call_instead(b"\r\n", is_endless=True)


async def test_a_compressed_answer_in_place_of_the_interpreter_is_not_unpacked():
    packed = gzip.compress(b" " * (64 << 20) + b"[]")
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    with pytest.raises(UnavailableError, match="something else than expected"):
        await call_instead(head.encode() + packed)
