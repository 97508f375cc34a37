"""``%%sbx``: cells that run in a sandbox."""

from __future__ import annotations

import re

import pytest


def test_the_first_cell_makes_a_sandbox_and_shows_its_value(kernel):
    cell = kernel.run("%%sbx\nx = 20\nprint('hello')\nx + 22")

    assert cell.error is None
    assert cell.stdout == "hello\n"
    assert [shown["text/plain"] for shown in cell.displayed] == ["42"]
    assert re.search(r"\d m?s ", cell.footer)
    assert "file" in cell.footer


def test_variables_stay_in_the_sandbox_and_not_in_the_notebook(kernel):
    kernel.run("%%sbx\nonly_there = 'kept'")

    assert kernel.run("%%sbx\nonly_there").displayed[0]["text/plain"] == "kept"
    assert kernel.value("'only_there' in globals()") == "False"


@pytest.mark.parametrize(
    ("language", "code", "printed"),
    [("bash", "greeting=hi\necho $greeting from $PWD", "hi from /home/user\n"),
     ("javascript", "console.log([1, 2].map(n => n * 2).join())", "2,4\n")],
)  # fmt: skip
def test_other_languages_run_too(kernel, language, code, printed):
    assert kernel.run(f"%%sbx {language}\n{code}").stdout == printed


def test_an_error_stops_the_cell_and_names_its_line_in_the_notebook(kernel):
    kernel.run("%%sbx\ndef broken():\n    return 1 / 0")
    defined = kernel.count

    cell = kernel.run("%%sbx\nx = 1\nbroken()")

    assert cell.error_name == "ZeroDivisionError"
    assert f"In[{kernel.count}], line 3" in cell.error
    assert f"In[{defined}], line 3" in cell.error
    [links] = [d["text/html"] for d in cell.displayed]
    assert f'href="#sbx-cell={kernel.count}&amp;line=3"' in links


def test_the_footer_counts_changed_files_also_of_the_same_size(kernel):
    kernel.run("%%sbx bash\necho one > /home/user/a; echo one > /home/user/b")

    changed = kernel.run("%%sbx bash\necho two > a; rm b; mkdir c; echo three > c/d")
    same = kernel.run("%%sbx bash\nls")

    assert "4 files changed" in changed.footer
    assert "0 files changed" in same.footer


def test_a_cell_after_another_is_one_request(kernel):
    kernel.run(
        "from sbx_jupyter.client.api.transport import Transport\n"
        "requests, opened = [], Transport.open\n"
        "def counted(*args, **options):\n"
        "    requests.append(args[2])\n"
        "    return opened(*args, **options)\n"
        "Transport.open = counted"
    )
    kernel.run("%%sbx\n1")

    cell = kernel.run("%%sbx bash\ntouch counted")
    paths = kernel.value("[request.rpartition('/')[2] for request in requests]")
    kernel.run("Transport.open = opened")

    assert "1 file changed" in cell.footer
    assert paths == "['diff', 'execute', 'execute']"  # only the first looks at what was before


def test_a_short_cell_wakes_the_thread_of_the_client_few_times(kernel):
    kernel.run(
        "from sbx_jupyter.client.blocking import Portal\n"
        "calls, call = [], Portal.call\n"
        "def counted(self, coroutine):\n"
        "    calls.append(coroutine.__qualname__)\n"
        "    return call(self, coroutine)\n"
        "Portal.call = counted"
    )
    said = kernel.run("%%sbx\nprint('hi')")
    calls = kernel.value("calls")
    kernel.run("Portal.call = call")

    assert said.stdout == "hi\n"
    # Its number, what it prints, and its end with what it used.
    assert 1 <= calls.count("'") // 2 <= 4, calls


def test_what_goes_to_both_streams_keeps_its_order(kernel):
    cell = kernel.run(
        "%%sbx\nimport sys\nfor number in range(5):\n"
        "    print('out', number, flush=True)\n"
        "    print('err', number, file=sys.stderr, flush=True)"
    )

    said = [(o["name"], o["text"]) for o in cell.outputs if o["output_type"] == "stream"]
    assert said == [
        (stream, f"{name} {number}\n")
        for number in range(5)
        for stream, name in (("stdout", "out"), ("stderr", "err"))
    ]


def test_the_execution_is_kept_in_a_variable_and_quiet_shows_nothing(kernel):
    cell = kernel.run("%%sbx --quiet --out run\nprint('printed')\n6 * 7")

    assert (cell.outputs, cell.error) == ([], None)
    assert kernel.value("(run.text, run.logs.stdout)") == "('42', ['printed\\n'])"


def test_a_context_has_its_own_variables(kernel):
    kernel.run("%%sbx\nwhere = 'default'")
    kernel.run("%%sbx --context other\nwhere = 'other'")

    assert kernel.run("%%sbx\nwhere").displayed[0]["text/plain"] == "default"
    assert kernel.run("%%sbx --context other\nwhere").displayed[0]["text/plain"] == "other"
    wrong = kernel.run("%%sbx bash --context other\ntrue")
    assert "runs python, not bash" in wrong.error


def test_code_beyond_its_time_is_interrupted(kernel):
    kernel.run("%%sbx\n'ready'")  # a start of the interpreter is no part of the code's time
    # Long enough for the code to begin before, also where many others want the processor.
    cell = kernel.run("%%sbx --timeout 3\nimport time\nprint('begun', flush=True)\ntime.sleep(60)")

    assert "longer than 3 s" in cell.error
    assert cell.error.count("\n") == 0
    assert cell.stdout == "begun\n"
    assert kernel.run("%%sbx\n'free'").displayed[0]["text/plain"] == "free"


def test_displayed_objects_cannot_act_in_the_page(kernel):
    cell = kernel.run(
        "%%sbx\n"
        "from IPython.display import display, HTML, SVG, Javascript, Markdown, Latex, JSON\n"
        "display(HTML('<script>parent.x = 1</script>'), Javascript('parent.x = 1'))\n"
        'display(SVG(\'<svg xmlns="http://www.w3.org/2000/svg" onload="x"/>\'))\n'
        "display(Markdown('# T <script>1</script>'), Latex('$x^2$'), JSON({'a': 1}))\n"
        "display({'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}}, raw=True)"
    )

    html, javascript, svg, markdown, latex, data, widget = cell.displayed
    for frame in (html, javascript):
        assert frame["text/html"].startswith("<iframe ")
        assert 'sandbox="allow-scripts"' in frame["text/html"]
    assert "data:image/svg+xml;base64," in svg["text/html"]
    assert "<script" not in markdown["text/html"]
    assert latex["text/latex"] == "$x^2$"
    assert data["application/json"] == {"a": 1}
    assert set(widget) == {"text/plain"}


def test_a_data_frame_is_a_table_and_a_figure_a_picture(kernel):
    cell = kernel.run(
        "%%sbx\nimport pandas as pd, matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n"
        "pd.DataFrame({'n': [1, 2]})"
    )

    picture, table = cell.displayed
    assert picture["image/png"]
    assert '<table class="dataframe">' in table["text/html"]


def test_endless_and_binary_output_is_cut_and_the_notebook_goes_on(kernel):
    endless = kernel.run("%%sbx --timeout 3\nwhile True: print('x' * 1000)")
    binary = kernel.run(
        "%%sbx bash\nhead -c 4000 /dev/zero | tr '\\0' '\\1'; head -c 4000 /dev/zero; echo end"
    )

    assert "longer than 3 s" in endless.error
    assert "[cut: " in endless.stderr
    assert "of output left out" in endless.stdout
    assert len(endless.stdout) < 1_200_000
    assert "4000 characters that are no text" in binary.stderr
    assert binary.stdout.endswith("[4000 NUL bytes]end\n")


def test_many_results_are_counted_and_not_drawn(kernel):
    cell = kernel.run("%%sbx\nfor i in range(130): display(i)")

    assert len(cell.displayed) == 100
    assert "30 more results are not drawn" in cell.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%%sbx nobody", "there is no sandbox 'nobody'"),
        ("%%sbx box pyton", "'pyton' is no language"),
        ("%%sbx --timout 3", "unrecognized arguments: --timout"),
        ("%%sbx --timeout soon", "'soon' is no time"),
        ("%%sbx --out 1x", "'1x' is no name of a variable"),
        ("%%sbx 'unclosed", "no closing quotation"),
    ],
)
def test_a_wrong_line_is_one_clear_line_and_runs_nothing(kernel, line, said):
    cell = kernel.run(f"{line}\nran_here = True")

    assert cell.error.startswith("sbx: ")
    assert said in cell.error
    assert "\n" not in cell.error
    assert kernel.value("'ran_here' in globals()") == "False"


def test_help_is_printed_and_nothing_runs(kernel):
    cell = kernel.run("%%sbx --help\nran_here = True")

    assert "--timeout TIME" in cell.stdout
    assert kernel.value("'ran_here' in globals()") == "False"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("_repr_html_(self): raise ValueError('no page')", "ValueError: no page"),
        ("__repr__(self): raise KeyError('no text')", "KeyError: 'no text'"),
        ("_repr_mimebundle_(self, **_): return {'a/b': object()}", "Can't clean for JSON"),
        ("_repr_mimebundle_(self, **_): return 'text'", "invalid type"),
        ("_repr_png_(self): return 'no picture'", "[a picture that is damaged]"),
        ("_repr_json_(self): return json.loads('[' * 300 + ']' * 300)", "more than 100 levels"),
    ],
)
def test_code_that_fails_to_display_is_a_clear_line_and_the_next_cell_runs(kernel, shown, said):
    cell = kernel.run(f"%%sbx\nimport json\nclass Shown:\n    def {shown}\nShown()")

    texts = [cell.stderr, *(each["text/plain"] for each in cell.displayed)]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", cell.error or "\n".join(texts))
    assert said in plain
    assert kernel.run("%%sbx\n'next'").displayed[0]["text/plain"] == "next"
