"""Where cells run: never here when they were meant for a sandbox."""

from __future__ import annotations

import pytest


@pytest.fixture
def routed(kernel):
    """The notebook, while every cell runs in a sandbox."""
    kernel.run("here = True")
    on = kernel.run("%sbx default on")
    assert on.error is None, on.error
    assert "every cell runs in" in on.stdout
    yield kernel
    assert kernel.run("%sbx default off").error is None


def test_cells_without_a_prefix_run_in_the_sandbox(routed):
    cell = routed.run("there = 1\n'here' in globals()")

    assert cell.displayed[0]["text/plain"] == "False"
    assert routed.value("'there' in globals()") == "False"
    assert routed.run("%%bash\necho $PWD").stdout == "/home/user\n"


def test_a_local_cell_runs_here_also_with_a_magic_inside(routed):
    assert routed.run("%%local\nhere").outputs[0]["data"]["text/plain"] == "True"
    assert "Wall time" in routed.run("%%local\n%%time\nassert here").stdout
    timed = routed.run("%%local\n%time assert here")
    assert timed.error is None
    awaited = routed.run("%%local\nimport asyncio\nawait asyncio.sleep(0)\nhere")
    assert awaited.outputs[0]["data"]["text/plain"] == "True"


@pytest.mark.parametrize(
    "cell",
    [
        "%%loca\nescaped = True",
        "%%local2\nescaped = True",
        "%% local\nescaped = True",
        "%local\nescaped = True",
        "%%sbxx\nescaped = True",
        "%%sbx nobody\nescaped = True",
        "%%sbx --unknown\nescaped = True",
        "%sbx list\nescaped = True",
        "%sbx nonsense\nescaped = True",
        "escaped = True\n1 / 0",
        "1 / 0\nescaped = True",
        "%%sbx?\nescaped = True",
        "# %%local\nescaped = True",
        "x = (\nescaped = True",
        " %%local\nescaped = True",
        "escaped = True\n%%local",
    ],
)
def test_no_cell_runs_here_by_a_slip_nor_after_an_error(routed, cell):
    routed.run(cell)
    routed.run("escaped = True")

    assert routed.value("'escaped' in globals()") == "False"


def test_a_line_for_this_kernel_after_other_code_runs_nothing_in_the_sandbox(routed):
    mixed = routed.run("mixed = 1\n%sbx list")

    assert "keep %sbx lines in a cell of their own" in mixed.error
    assert routed.run("'mixed' in globals()").displayed[0]["text/plain"] == "False"


def test_no_cell_runs_here_when_the_sandbox_has_ended(routed):
    routed.run("%%local\nbox = get_ipython()._sbx_magics.session.current.box\nbox.kill()")

    first, second = (routed.run("escaped = True") for _ in range(2))

    assert "has ended" in first.error
    assert "has ended" in second.error
    assert routed.value("'escaped' in globals()") == "False"
    routed.run("%sbx create")


@pytest.mark.parametrize(
    "cell",
    [
        "%% sbx\nescaped = True",
        "%%%sbx\nescaped = True",
        "%%SBX\nescaped = True",
        "% sbx\nescaped = True",
        "%%sbxx\nescaped = True",
        "%sbx python\nescaped = True",
        "%sbx\nescaped = True",
        "%%sbx?\nescaped = True",
        "# a comment\n%%sbx\nescaped = True",
        "\n\n%%sbx nobody\nescaped = True",
        "%%sbx --tiemout 3\nescaped = True",
        " %%sbx\nescaped = True",
    ],
)
def test_a_misspelt_magic_runs_nothing_here(kernel, cell):
    kernel.run(cell)

    assert kernel.value("'escaped' in globals()") == "False"


def test_cells_run_here_again_after_off_and_after_unload(kernel):
    kernel.run("%sbx default on")
    kernel.run("%sbx default off")

    assert kernel.run("still_here = True").outputs == []
    assert kernel.value("still_here") == "True"
    assert "in this kernel" in kernel.run("%sbx default").stdout
    kernel.run("%unload_ext sbx_jupyter")
    assert kernel.run("%%sbx\n1").outputs[0].get("name") == "stderr"
    assert kernel.run("%load_ext sbx_jupyter").error is None
