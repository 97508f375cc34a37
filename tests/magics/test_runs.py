"""Cells in the background, in all forks at once, with a diff, with a snapshot; interrupts."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest

from tests.waiting import until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def forked(kernel):
    """A sandbox with three forks that have its files."""
    assert kernel.run("%sbx create base").error is None
    kernel.run("%%sbx\nonly_here = 1\nopen('/home/user/shared.txt', 'w').write('shared')")
    said = kernel.run("%sbx fork 3 --into copies").stdout
    assert "base-1, base-2, base-3" in said
    assert "none of its variables" in said
    return kernel


def test_a_cell_runs_in_all_forks_side_by_side(forked):
    forked.run("rate = 0.5")

    cell = forked.run(
        "%%sbx --all -i rate --out runs\n"
        "print(open('/home/user/shared.txt').read(), rate, 'only_here' in globals())\n"
        "open('/home/user/mine.txt', 'w').write('x')\n40 + 2"
    )

    assert cell.error is None, cell.error
    [grid] = cell.displayed
    for name in ("base-1", "base-2", "base-3"):
        assert name in grid["text/html"]
    assert grid["text/plain"].count("shared 0.5 False") == 3
    assert (
        grid["text/plain"].count("2 files changed") + grid["text/plain"].count("1 file changed")
        == 3
    )
    assert grid["text/plain"].count("peak memory") == 3
    assert "Forks have files, not memory" in grid["text/html"]
    assert forked.value("{name: run.text for name, run in runs.items()}") == (
        "{'base-1': '42', 'base-2': '42', 'base-3': '42'}"
    )


def test_the_forks_in_a_variable_run_it_too_and_one_that_fails_is_named(forked):
    cell = forked.run("%%sbx copies --all bash\n[ ! -e mark ] || echo marked\n[ -e mark ]")
    first = forked.run("%%sbx base-1 bash\ntouch mark")
    second = forked.run("%%sbx copies --all bash\n[ -e mark ]")

    assert "failed in 3 of 3: base-1, base-2, base-3" in cell.error
    assert first.error is None
    assert "failed in 2 of 3: base-2, base-3" in second.error


def test_a_sandbox_without_forks_says_how_to_make_some(forked):
    forked.run("%sbx create lonely")

    cell = forked.run("%%sbx --all\n1")
    forked.run("%sbx kill lonely\n%sbx use base")

    assert cell.error == "sbx: lonely has no forks; make some with: %sbx fork 3"


def test_a_diff_shows_what_this_cell_changed(forked):
    forked.run("%%sbx bash\nmkdir -p d; echo before > d/before; echo x > d/gone")

    cell = forked.run("%%sbx bash --diff\necho after > d/after; rm d/gone; echo BEFORE > d/before")

    [tree] = cell.displayed
    assert tree["text/plain"].splitlines() == [
        "3 files changed",
        "+ /home/user/d/after",
        "~ /home/user/d/before",
        "- /home/user/d/gone",
    ]
    assert "<details" in tree["text/html"]
    assert 'data-path="/home/user/d/after"' in tree["text/html"]


def test_a_diff_of_all_forks_names_each(forked):
    cell = forked.run("%%sbx --all --diff bash\necho x > ~/by-all")

    [_, *trees] = cell.displayed
    assert [tree["text/plain"].splitlines() for tree in trees] == [
        [f"base-{number}: 1 file changed", "+ /home/user/by-all"] for number in (1, 2, 3)
    ]


def test_a_snapshot_is_taken_after_the_cell(forked):
    cell = forked.run("%%sbx --snapshot bash\necho captured > captured.txt")
    found = re.search(r"snapshot (\S+)\]", cell.footer)
    assert found is not None, cell.footer
    snapshot = found[1]

    forked.run(f"%sbx restore {snapshot} again")
    there = forked.run("%%sbx bash\ncat captured.txt")
    forked.run("%sbx kill again\n%sbx use base")

    assert there.stdout == "captured\n"


def test_a_cell_in_the_background_has_a_handle(forked):
    shown = forked.run(
        "%%sbx --async --out run\nimport os, time\nprint('begun', flush=True)\n"
        "while not os.path.exists('/home/user/go'): time.sleep(0.05)\n6 * 7"
    )
    assert "in the background" in shown.displayed[0]["text/html"]
    assert forked.value("run.done") == "False"
    until(lambda: "begun" in forked.value("run.progress()"))

    forked.run("%%sbx base bash\ntouch go")

    assert forked.value("run.result(30).text") == "'42'"
    assert "ended" in forked.value("run.progress()")


def test_a_cell_in_the_background_is_cancelled(forked):
    forked.run("%%sbx --async --out run\nimport time\ntime.sleep(1000)")

    assert forked.value("run.cancel()") == "True"
    assert "was cancelled" in forked.run("run.result()").error
    assert forked.run("%%sbx --timeout 30\n'free'").displayed[0]["text/plain"] == "free"


@pytest.mark.parametrize(
    "options",
    ["--async --all", "--async -o x", "--all --snapshot", "--all -o x", "--stream --quiet"],
)
def test_options_that_contradict_each_other_are_refused(forked, options):
    cell = forked.run(f"%%sbx {options}\nran = True")

    assert cell.error.startswith("sbx: ")
    assert "not" in cell.error


@pytest.mark.parametrize("options", ["", "--all"])
def test_an_interrupt_reaches_the_code_at_once(forked, options):
    mark = "/home/user/interrupted"
    forked.run(f"%%sbx --all bash\nrm -f {mark} running")
    forked.run(f"%%sbx bash\nrm -f {mark} running")
    code = (
        "import time\nopen('/home/user/running', 'w').close()\nprint('begun', flush=True)\n"
        "try:\n    time.sleep(1000)\n"
        f"except KeyboardInterrupt:\n    open({mark!r}, 'w').write(str(time.time()))"
    )
    name = "base-1" if options else "base"
    sent = []

    def interrupt():
        # Watched from outside, since the kernel is busy.
        until(lambda: running(forked, name))
        sent.append(time.time())
        os.kill(forked.client.km.provisioner.pid, signal.SIGINT)

    remember_boxes(forked)
    thread = threading.Thread(target=interrupt)
    thread.start()
    cell = forked.run(f"%%sbx {options}\n{code}")
    thread.join()

    assert cell.error_name == "InterruptedCodeError"
    assert "was interrupted" in cell.error
    reached = until(lambda: content(forked, name, mark))
    assert float(reached) - sent[0] < 2, "the code was interrupted late"
    assert forked.run("%%sbx\n'free'").displayed[0]["text/plain"] == "free"


def remember_boxes(forked):
    """Note the ids of the sandboxes, to look at them from outside while the kernel is busy."""
    known = "get_ipython()._sbx_magics.session._known.values()"
    forked.boxes = eval(forked.value(f"{{k.name: k.box.sandbox_id for k in {known}}}"))


def connected(forked, name):
    from sbx_jupyter.client import ConnectionConfig, Sandbox

    config = ConnectionConfig.from_connection_file(forked.engine.connection)
    return Sandbox.connect(forked.boxes[name], config=config)


def running(forked, name):
    return connected(forked, name).files.exists("/home/user/running")


def content(forked, name, path):
    files = connected(forked, name).files
    return files.read(path) if files.exists(path) else ""


def test_the_engine_killed_in_mid_cell_is_one_line_and_no_wait(kernel, engine):
    kernel.run("%sbx create survivor")
    remember_boxes(kernel)

    def kill():
        until(lambda: running(kernel, "survivor"))
        engine.kill()

    code = "open('/home/user/running', 'w').close()\nimport time\ntime.sleep(1000)"
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        cell = kernel.run(f"%%sbx\n{code}")
    finally:
        thread.join()
        engine.start()

    assert cell.error.startswith("sbx: survivor: ")
    assert "\n" not in cell.error
    assert "no answer" in cell.error or "broke" in cell.error
