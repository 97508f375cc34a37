"""``%sbx``: the subcommands."""

from __future__ import annotations

import json

import pytest

from sbx_jupyter.magics.commands.registry import COMMANDS


@pytest.fixture(scope="module")
def box(kernel):
    """The sandbox "box", in use."""
    created = kernel.run("%sbx create box --env COLOUR=blue")
    assert created.error is None, created.error
    assert "created box" in created.stdout
    return kernel


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_subcommand_has_help(box, name):
    cell = box.run(f"%sbx {name} --help")

    assert cell.error is None
    assert cell.stdout.startswith(f"usage: %sbx {name}")


def test_the_help_lists_all_subcommands(box):
    text = box.run("%sbx --help").stdout

    assert all(f"  {name} " in text for name in COMMANDS)


def test_variables_given_to_create_are_set(box):
    assert box.run("%%sbx bash\necho $COLOUR").stdout == "blue\n"


def test_the_list_shows_the_sandbox_in_use(box):
    [shown] = box.run("%sbx list").displayed

    assert "* box" in shown["text/plain"]
    assert "<table" in shown["text/html"]


def test_files_go_both_ways(box, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("from here")

    put = box.run(f"%sbx put {source} notes/there.txt")
    box.run("%%sbx bash\necho ' and there' >> notes/there.txt")
    got = box.run(f"%sbx get notes/there.txt {target}")
    again = box.run(f"%sbx get notes/there.txt {target}")

    assert "/home/user/notes/there.txt" in put.stdout
    assert got.error is None
    assert target.read_text() == "from here and there\n"
    assert "is there already" in again.error
    [listed] = box.run("%sbx ls notes").displayed
    assert listed["text/plain"] == "there.txt"


def test_a_file_is_shown_by_its_kind(box):
    box.run("%%sbx bash\necho plain > a.txt; echo '<script>1</script>' > a.html; echo '# T' > a.md")

    assert box.run("%sbx open a.txt").stdout == "plain\n"
    assert box.run("%sbx open a.html").displayed[0]["text/html"].startswith("<iframe")
    assert "<h1>T</h1>" in box.run("%sbx open a.md").displayed[0]["text/html"]


def test_a_large_file_is_not_shown_through_a_link_either(box):
    box.run("%%sbx bash\ntruncate -s 9000000 large.txt; ln -s large.txt link.txt")

    direct, linked = (box.run(f"%sbx open {name}.txt").error for name in ("large", "link"))

    assert "large.txt has 9 MB; up to 8.39 MB are shown in a cell" in direct
    assert "link.txt has more than 8.39 MB; up to 8.39 MB are shown in a cell" in linked


@pytest.mark.parametrize("name", ["terminal", "files", "metrics"])
def test_widgets_are_shown(box, name):
    [shown] = box.run(f"%sbx {name}").displayed

    assert "application/vnd.jupyter.widget-view+json" in shown


def test_listening_ports_have_an_address(box):
    box.run("%%sbx\nimport socket\nserver = socket.create_server(('127.0.0.1', 8123))")

    [shown] = box.run("%sbx ports").displayed

    assert shown["text/plain"].startswith("8123 8123-")


def test_a_snapshot_is_restored_with_its_files_and_without_variables(box):
    box.run("%%sbx\nkept = 1\nopen('/home/user/kept.txt', 'w').write('x')")
    said = box.run("%sbx snapshot").stdout
    snapshot = said.split()[-1]

    restored = box.run(f"%sbx restore {snapshot} second")
    there = box.run("%%sbx bash\ncat kept.txt")
    gone = box.run("%%sbx\nkept")
    box.run("%sbx kill second\n%sbx use box")

    assert "no variables" in restored.stdout
    assert there.stdout == "x"
    assert gone.error_name == "NameError"


def test_what_a_sandbox_changed_is_a_tree(box):
    box.run("%%sbx bash\nmkdir -p deep/er; echo x > 'deep/er/<b>.txt'")

    [shown] = box.run("%sbx diff").displayed

    assert "+ /home/user/deep/er/<b>.txt" in shown["text/plain"]
    assert "&lt;b&gt;.txt" in shown["text/html"]
    assert "<b>.txt" not in shown["text/html"]


def test_a_paused_sandbox_is_resumed_by_its_next_use(box):
    box.run("%%sbx\nkept = 'in memory'")

    assert "paused" in box.run("%sbx pause").stdout
    assert box.run("%%sbx\nkept").displayed[0]["text/plain"] == "in memory"
    assert "resumed" in box.run("%sbx resume").stdout


@pytest.mark.parametrize(
    "subcommand", ["terminal", "files", "metrics", "ports", "pause", "resume", "diff"]
)
def test_a_sandbox_is_named_with_and_without_the_option(box, subcommand):
    for name in ("nobody", "-s nobody"):
        assert "there is no sandbox 'nobody'" in box.run(f"%sbx {subcommand} {name}").error


def test_the_environment_is_set_and_no_key_is_shown(box, engine):
    cell = box.run("%sbx env")

    assert json.dumps(cell.outputs).count(engine.key) == 0
    assert "E2B_API_KEY" in cell.stdout
    assert box.value("__import__('os').environ['E2B_API_KEY']") == repr(engine.key)
    box.run("import os\nfor name in list(os.environ):\n    if 'E2B_' in name: del os.environ[name]")


def test_the_isolation_is_described(box):
    [shown] = box.run("%sbx doctor").displayed

    assert "tier: " in shown["text/plain"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%sbx", "needs a subcommand"),
        ("%sbx creat", "did you mean create?"),
        ("%sbx create python", "is a language"),
        ("%sbx create box", "there is a sandbox 'box' already"),
        ("%sbx create x --template nope-not-there", "nope-not-there"),
        ("%sbx create x --env novalue", "is not NAME=VALUE"),
        ("%sbx use nobody", "there is no sandbox 'nobody'"),
        ("%sbx put /no/such/file", "no file '/no/such/file'"),
        ("%sbx get /no/such/file", "not"),
        ("%sbx ls /no/such/place", "not"),
        ("%sbx open /etc", "is a directory"),
        ("%sbx fork 0", "there can be 1 to 100"),
        ("%sbx restore not-a-snapshot", "not-a-snapshot"),
        ("%sbx list --all", "unrecognized arguments"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(box, line, said):
    cell = box.run(f"{line}\nran_on = True")

    assert cell.error.startswith("sbx: ")
    assert said in cell.error
    assert "\n" not in cell.error
    assert box.value("'ran_on' in globals()") == "False"


@pytest.mark.parametrize(("option", "allowed"), [("", "True"), ("--no-internet", "False")])
def test_a_sandbox_has_internet_unless_it_was_refused(box, option, allowed):
    box.run(f"%sbx create {option}")
    found = box.value("get_ipython()._sbx_magics.session.current.box.info().allow_internet_access")
    box.run("%sbx kill\n%sbx use box")

    assert found == allowed


def test_a_sandbox_that_has_ended_says_what_to_do(box):
    box.run("%sbx create brief")
    box.run("get_ipython()._sbx_magics.session.current.box.kill()")

    first = box.run("%%sbx\n1")
    second = box.run("%%sbx\n1")
    box.run("%sbx use box")

    for cell in (first, second):
        assert cell.error == "sbx: the sandbox brief has ended; start one with %sbx create"


def test_a_name_can_be_a_variable_and_words_are_completed(box):
    box.run("from sbx_jupyter import Sandbox\nmine = Sandbox.create('code-interpreter-v1')")

    ran = box.run("%%sbx mine\n'in mine'")
    completed = box.value("get_ipython().complete('', '%sbx cr', 7)[1]")
    options = box.value("get_ipython().complete('--t', '%%sbx --t', 9)[1]")
    box.run("mine.kill()")

    assert ran.displayed[0]["text/plain"] == "in mine"
    assert "create" in completed
    assert "--timeout" in options
