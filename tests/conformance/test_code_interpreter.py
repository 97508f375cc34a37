"""e2b-code-interpreter for Python: code in kernels inside the sandbox (interface 5)."""

from __future__ import annotations

import threading

import pytest
from e2b_code_interpreter import NotFoundException, Sandbox, SandboxException, TimeoutException
from e2b_code_interpreter.charts import ChartType


@pytest.fixture(scope="module")
def interpreter(e2b_environment):
    """One sandbox for the module; tests that break its kernel make contexts of their own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in e2b_environment.items():
            patch.setenv(name, value)
        with Sandbox.create(timeout=3600) as created:
            yield created


def test_the_value_of_the_last_line_is_the_main_result(interpreter):
    execution = interpreter.run_code("x = 20\nx + 22")

    assert execution.text == "42"
    assert execution.results[0].is_main_result
    assert execution.error is None


def test_variables_stay_from_one_execution_to_the_next(interpreter):
    interpreter.run_code("kept = 'a string'")

    assert interpreter.run_code("kept").text == "a string"


def test_output_is_streamed_to_callbacks(interpreter):
    # The code goes on when its first line was heard, and not before.
    execution = interpreter.run_code(
        "import os, time\nprint(1, flush=True)\n"
        "while not os.path.exists('heard'): time.sleep(0.05)\nprint(2)",
        on_stdout=lambda message: interpreter.files.write("heard", message.line),
    )

    assert "".join(execution.logs.stdout) == "1\n2\n"


def test_an_error_tells_name_value_and_traceback(interpreter):
    execution = interpreter.run_code("def f():\n    return 1 / 0\nf()")

    assert execution.error.name == "ZeroDivisionError"
    assert execution.error.value == "division by zero"
    assert "ZeroDivisionError" in execution.error.traceback


def test_it_runs_as_user_at_home(interpreter):
    execution = interpreter.run_code("import getpass, os; (getpass.getuser(), os.getcwd())")

    assert execution.text == "('user', '/home/user')"


def test_variables_of_one_execution_are_taken_back():
    with Sandbox.create(timeout=600, envs={"GLOBAL": "one"}) as sandbox:
        show = "import os; (os.environ.get('GLOBAL'), os.environ.get('LOCAL'))"

        inside = sandbox.run_code(show, envs={"GLOBAL": "two", "LOCAL": "three"})

        assert inside.text == "('two', 'three')"
        assert sandbox.run_code(show).text == "('one', None)"


def test_contexts_have_their_own_variables_and_directory(interpreter):
    context = interpreter.create_code_context(cwd="/tmp")
    interpreter.run_code("shared = 1")

    assert interpreter.run_code("'shared' in globals()", context=context).text == "False"
    assert interpreter.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    assert context.id in [known.id for known in interpreter.list_code_contexts()]
    interpreter.remove_code_context(context)
    assert context.id not in [known.id for known in interpreter.list_code_contexts()]
    with pytest.raises(NotFoundException):
        interpreter.run_code("1", context=context)


def test_a_restarted_context_is_empty(interpreter):
    context = interpreter.create_code_context()
    interpreter.run_code("x = 1", context=context)

    interpreter.restart_code_context(context)

    assert interpreter.run_code("x", context=context).error.name == "NameError"


def test_a_python_and_a_javascript_context_are_there_from_the_start(interpreter):
    languages = {context.language for context in interpreter.list_code_contexts()}

    assert {"python", "javascript"} <= languages


def test_bash_keeps_its_variables_and_reports_failure(interpreter):
    interpreter.run_code("greeting=hello; cd /tmp", language="bash")

    execution = interpreter.run_code('echo "$greeting from $PWD"; false', language="bash")

    assert execution.logs.stdout == ["hello from /tmp\n"]
    assert (execution.error.name, execution.error.value) == ("ExitStatus", "1")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import fs from 'fs'\nfs.existsSync('/tmp')", "true"),
        ("import { basename as b, sep } from 'node:path'; b('/x/y') + sep", "'y/'"),
        ("import os, * as all from 'os'\nall.default === os", "true"),
        ("import 'fs'\n1 + 1", "2"),
        ("import {\n  join,\n} from 'path'\njoin('a', 'b')", "'a/b'"),
        ("const text = `\nimport x from 'y'\n`; text.length", "19"),
        ("const later = async () => {\nawait import('fs')\n}; await later(); 7", "7"),
    ],
)
def test_javascript_has_static_imports(interpreter, code, text):
    execution = interpreter.run_code(code, language="javascript")

    assert execution.error is None
    assert execution.text.strip("'") == text.strip("'")


def test_imported_names_stay_and_may_be_imported_again(interpreter):
    for _ in range(2):
        interpreter.run_code("import { tmpdir } from 'os'", language="javascript")

    assert interpreter.run_code("tmpdir()", language="javascript").text == "/tmp"


def test_a_module_that_is_not_there_is_an_error(interpreter):
    failed = interpreter.run_code("import x from 'not-there'", language="javascript")

    assert "not-there" in failed.error.value


@pytest.mark.parametrize("call", ["picture.show()", "picture.save('p.png')"])
def test_a_picture_is_shown_when_it_is_shown_or_saved(interpreter, call):
    pytest.importorskip("PIL", reason="Pillow is in sandboxes where this machine has it")

    execution = interpreter.run_code(
        f"from PIL import Image\npicture = Image.new('RGB', (4, 4))\n{call}"
    )

    assert execution.error is None
    assert [bool(result.png) for result in execution.results] == [True]


def test_a_picture_that_goes_elsewhere_is_not_shown(interpreter):
    pytest.importorskip("PIL", reason="Pillow is in sandboxes where this machine has it")

    execution = interpreter.run_code(
        "import io\nfrom PIL import Image\nImage.new('RGB', (4, 4)).save(io.BytesIO(), 'PNG')"
    )

    assert execution.results == []


def test_javascript_awaits_prints_and_fails(interpreter):
    done = interpreter.run_code(
        "const n = await Promise.resolve(21); console.log('hi'); n * 2", language="js"
    )
    failed = interpreter.run_code("throw new TypeError('no')", language="javascript")

    assert (done.text, done.logs.stdout) == ("42", ["hi\n"])
    assert (failed.error.name, failed.error.value) == ("TypeError", "no")


def test_a_language_without_a_kernel_is_an_honest_error(interpreter):
    with pytest.raises(SandboxException, match="no kernel for r is installed"):
        interpreter.run_code("1", language="r")


def test_a_client_that_gives_up_interrupts_the_code(interpreter):
    context = interpreter.create_code_context()
    with pytest.raises(TimeoutException):
        interpreter.run_code("import time\ntime.sleep(1000)", context=context, timeout=1)

    execution = interpreter.run_code("'free again'", context=context)

    assert execution.text == "free again"


def test_executions_of_one_context_take_turns(interpreter):
    order = []

    def run(name):
        interpreter.run_code(
            f"import time; time.sleep(0.3); print({name!r})", on_stdout=order.append
        )

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(message.line for message in order) == ["a\n", "b\n"]


def test_a_kernel_that_dies_is_reported_and_replaced(interpreter):
    context = interpreter.create_code_context()

    execution = interpreter.run_code("import os; os._exit(1)", context=context)

    assert execution.error.name == "ContextRestarting"
    assert interpreter.run_code("1 + 1", context=context).text == "2"


def test_asking_for_input_fails(interpreter):
    assert interpreter.run_code("input()").error.name == "StdinNotImplementedError"


def test_a_data_frame_comes_as_columns(interpreter):
    execution = interpreter.run_code(
        "import pandas as pd\n"
        "pd.DataFrame({'n': [1, 2], 't': pd.to_datetime(['2024-01-01', None])})"
    )

    result = execution.results[0]
    assert result.data == {"n": [1, 2], "t": ["2024-01-01T00:00:00", None]}
    assert "<table" in result.html


def test_displayed_objects_keep_their_kinds(interpreter):
    execution = interpreter.run_code(
        "from IPython.display import display, HTML, JSON, Markdown\n"
        "display(HTML('<b>x</b>'), JSON({'a': 1}), Markdown('# t'))\n"
        "display({'application/x-own': 'data'}, raw=True)"
    )

    html, data, markdown, own = execution.results
    assert (html.html, data.json, markdown.markdown) == ("<b>x</b>", {"a": 1}, "# t")
    assert own.extra == {"application/x-own": "data"}
    assert not html.is_main_result


def chart_of(interpreter, code):
    prepared = f"import matplotlib.pyplot as plt\n{code}\nplt.show()"
    execution = interpreter.run_code(prepared, timeout=60)
    assert execution.error is None, execution.error
    assert execution.results[0].png
    return execution.results[0].chart


def test_a_line_chart_is_read_back(interpreter):
    chart = chart_of(
        interpreter,
        "plt.plot([1, 2, 3], [4, 8, 6], label='speed')\n"
        "plt.title('Run'); plt.xlabel('Time (s)'); plt.ylabel('Speed (m/s)'); plt.yscale('log')",
    )

    assert chart.type == ChartType.LINE
    assert (chart.title, chart.x_label, chart.x_unit, chart.y_unit) == (
        "Run",
        "Time (s)",
        "s",
        "m/s",
    )
    assert (chart.x_scale, chart.y_scale) == ("linear", "log")
    assert chart.elements[0].label == "speed"
    assert chart.elements[0].points == [(1, 4), (2, 8), (3, 6)]


def test_a_scatter_chart_is_read_back(interpreter):
    chart = chart_of(interpreter, "plt.scatter([1, 2], [3, 4], label='dots')")

    assert chart.type == ChartType.SCATTER
    assert chart.elements[0].points == [(1, 3), (2, 4)]


def test_dates_and_categories_keep_their_meaning(interpreter):
    dates = chart_of(
        interpreter,
        "import datetime as d\nplt.plot([d.date(2024, 1, 1), d.date(2024, 1, 3)], [1, 2])",
    )
    names = chart_of(interpreter, "plt.plot(['low', 'high'], [1, 2])")

    assert dates.x_scale == "datetime"
    assert dates.elements[0].points[0] == ("2024-01-01", 1)
    assert names.x_scale == "categorical"
    assert names.elements[0].points == [("low", 1), ("high", 2)]


def test_a_bar_chart_is_read_back(interpreter):
    chart = chart_of(interpreter, "plt.bar(['p', 'q'], [3, 4], label='g')")

    assert chart.type == ChartType.BAR
    assert [(bar.label, bar.group, bar.value) for bar in chart.elements] == [
        ("p", "g", 3),
        ("q", "g", 4),
    ]


def test_a_pie_chart_is_read_back(interpreter):
    chart = chart_of(interpreter, "plt.pie([1, 3], labels=['small', 'big'])")

    assert chart.type == ChartType.PIE
    assert [(wedge.label, round(wedge.angle)) for wedge in chart.elements] == [
        ("small", 90),
        ("big", 270),
    ]


def test_a_box_chart_is_read_back(interpreter):
    chart = chart_of(
        interpreter, "plt.boxplot([[1, 2, 3, 4, 20], [5, 6, 7]], tick_labels=['a', 'b'])"
    )

    assert chart.type == ChartType.BOX_AND_WHISKER
    first, second = chart.elements
    assert (first.label, first.min, first.first_quartile, first.median) == ("a", 1, 2, 3)
    assert (first.third_quartile, first.max, first.outliers) == (4, 4, [20])
    assert (second.label, second.median, second.outliers) == ("b", 6, [])


def test_several_axes_make_a_superchart(interpreter):
    chart = chart_of(
        interpreter,
        "f, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\nb.bar(['x'], [1])\nf.suptitle('Both')",
    )

    assert chart.type == ChartType.SUPERCHART
    assert chart.title == "Both"
    assert [part.type for part in chart.elements] == [ChartType.LINE, ChartType.BAR]


def test_lists_and_dicts_come_as_json_too(interpreter):
    result = interpreter.run_code("{'a': [1, None, (2.5,)]}").results[0]

    assert result.text == "{'a': [1, None, (2.5,)]}"
    assert result.json == {"a": [1, None, [2.5]]}
    assert list(result.formats()) == ["text", "json"]


def test_every_character_arrives(interpreter):
    text = "\x0b\x0c\x1c\x85\u2028\u2029é"

    execution = interpreter.run_code(f"print({text!r}, end='')")

    assert "".join(execution.logs.stdout) == text


def test_a_traceback_has_no_colours(interpreter):
    execution = interpreter.run_code("1 / 0")

    assert "\x1b" not in execution.error.traceback
    assert execution.error.traceback.startswith("-----")


def test_a_sandbox_that_is_killed_before_its_kernel_answers_has_run_out_of_time():
    with Sandbox.create(timeout=600) as sandbox:
        sandbox.run_code("1")
        sandbox.commands.run("pkill -STOP -f [s]bx-interpreter.pyz", user="root")
        killing = threading.Timer(0.5, sandbox.kill)
        killing.start()
        with pytest.raises(TimeoutException):
            sandbox.run_code("2")
        killing.join()
