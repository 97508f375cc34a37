"""Objects of the client in a notebook: how they are shown, and those of the e2b package."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def objects(kernel):
    ran = kernel.run(
        "from sbx_jupyter import Sandbox, AsyncSandbox\n"
        "box = Sandbox.create('code-interpreter-v1', metadata={'name': '<b>named</b>'})\n"
        "_ = box.files.write('<i>.txt', 'x')"
    )
    assert ran.error is None, ran.error
    yield kernel
    kernel.run("box.kill()")


@pytest.mark.parametrize(
    ("expression", "shown", "never"),
    [
        ("box", "template", "api_key"),
        ("box.files.info('<i>.txt')", "/home/user/&lt;i&gt;.txt", "<i>"),
        ("box.commands.run('echo \"<u>\"; exit 3')", "exit code 3", "<u>"),
        ("Sandbox.list()", "&lt;b&gt;named&lt;/b&gt;", "<b>named"),
        ("box.run_code('print(\"<u>\")\\n1/0')", "ZeroDivisionError", "<u>"),
        ("AsyncSandbox(box.on_portal.platform, box.on_portal.record)", "template", "api_key"),
    ],
)
def test_objects_are_shown_as_html_that_is_escaped(objects, expression, shown, never):
    cell = objects.run(expression)

    html = cell.displayed[0]["text/html"]
    assert shown in html
    assert never not in html


@pytest.mark.parametrize("package", ["e2b", "e2b_code_interpreter"])
@pytest.mark.parametrize("kind", ["Sandbox", "AsyncSandbox"])
def test_sandboxes_of_the_e2b_packages_are_taken(objects, package, kind):
    objects.run("%sbx env")
    call = "await " if kind == "AsyncSandbox" else ""
    template = "" if package == "e2b_code_interpreter" else "'code-interpreter-v1'"
    opened = objects.run(
        f"import {package}\ntheirs = {call}{package}.{kind}.create({template})\n"
        "from sbx_jupyter import MetricsChart"
    )
    assert opened.error is None, opened.error

    ran = objects.run("%%sbx theirs\n'in theirs'")
    widget = objects.run("MetricsChart(theirs)")
    objects.run(f"{call}theirs.kill()\nimport os\nfor n in list(os.environ):\n"
                "    if n.startswith('E2B_'): del os.environ[n]")  # fmt: skip

    assert ran.error is None, ran.error
    assert ran.displayed[0]["text/plain"] == "in theirs"
    assert "application/vnd.jupyter.widget-view+json" in widget.outputs[0]["data"]


def test_something_else_is_no_sandbox(objects):
    objects.run("theirs = object()")

    assert "there is no sandbox 'theirs'" in objects.run("%%sbx theirs\n1").error
    assert "not a str" in objects.run("from sbx_jupyter import Terminal\nTerminal('x')").error
