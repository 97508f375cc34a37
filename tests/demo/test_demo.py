"""The demo notebook does what it says, on a real engine and in a real kernel."""

from __future__ import annotations

import pytest

from tests.demo.notebooks import text_of

MIME_OF_WIDGETS = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def cells(run_notebook):
    """The cells by their id, executed in order."""
    return run_notebook("demo")


def test_no_cell_prints_a_warning_or_an_error(cells):
    for name, cell in cells.items():
        for output in cell.outputs:
            assert output.output_type != "error", name
            assert output.get("name") != "stderr", (name, output.text)


def test_the_isolation_is_the_one_that_the_engine_found(cells):
    text = text_of(cells["isolation"])

    assert any(f"tier:    {tier}" in text for tier in ("namespaces", "landlock", "none"))
    for resource in ("memory", "cpu", "processes", "disk"):
        assert f"{resource}:" in text


def test_commands_answer(cells):
    lines = text_of(cells["commands"]).splitlines()

    assert lines[0] == "user"
    assert "42" in lines
    assert any(line.startswith("2 ") and "No such file" in line for line in lines)


def test_a_long_command_is_stopped(cells):
    assert text_of(cells["deadline"]).startswith("stopped: ")


def test_files_are_written_by_both_sides_and_listed(cells):
    text = text_of(cells["files"])

    assert "written from the notebook\nadded in the sandbox\n" in text
    assert "/home/user/notes/today.txt" in text


def test_the_server_in_the_background_is_reached_by_its_port(cells):
    assert "http.server 8000" in text_of(cells["background"])
    text = text_of(cells["port"])
    assert text.startswith("200 written from the notebook\n")
    assert "http://8000-" in text
    assert text_of(cells["stop-server"]).strip() == "True"


def test_a_reading_has_three_parts(cells):
    lines = text_of(cells["metrics"]).splitlines()

    assert [line.split()[0] for line in lines] == ["processor", "memory", "disk"]
    assert all(float(line.split()[3 if line.startswith("p") else 1]) >= 0 for line in lines[1:])


@pytest.mark.parametrize("name", ["file-browser", "terminal", "chart"])
def test_a_widget_is_shown(cells, name):
    [output] = cells[name].outputs

    assert MIME_OF_WIDGETS in output.data


def test_the_sandbox_is_gone_at_the_end(cells):
    assert text_of(cells["kill"]).strip() == "True False"
