"""The widget classes: their traits, their front ends, and what they refuse."""

from __future__ import annotations

import anywidget
import pytest
from traitlets import TraitError

import sbx_jupyter
from sbx_jupyter.client import AsyncSandbox
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError
from sbx_jupyter.widgets import base
from sbx_jupyter.widgets.still import STILL_TYPE, size_text
from tests.waiting import until

WIDGETS = [
    sbx_jupyter.FileBrowser,
    sbx_jupyter.Terminal,
    sbx_jupyter.MetricsChart,
    sbx_jupyter.SandboxView,
]
MEANT = {"close", "__init__", "_repr_mimebundle_", "__annotations__"}


@pytest.fixture(autouse=True)
def front_ends(tmp_path, monkeypatch):
    """Bundles that tell their name: the real ones belong to the browser tests."""
    for name in ("files.js", "terminal.js", "metrics.js", "sandbox.js"):
        (tmp_path / name).write_text(f"export default {{}}; // {name}")
    monkeypatch.setattr(base, "STATIC", tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", WIDGETS)
def test_a_widget_knows_its_sandbox_and_brings_its_front_end(kind, box):
    widget = kind(box, height="200px", title="Mine")

    assert widget.sandbox_id == box.sandbox_id
    assert widget._esm.endswith(kind.bundle)
    assert (widget.height, widget.title) == ("200px", "Mine")
    state = widget.get_state()
    assert {"sandbox_id", "height", "title", "_esm"} <= state.keys()
    widget.close()


@pytest.mark.parametrize("kind", WIDGETS)
def test_a_widget_has_a_title_for_those_who_do_not_see_it(kind, box):
    widget = kind(box)

    assert widget.title
    widget.close()


class Plain(anywidget.AnyWidget):
    """What any widget class has, without a word of ours."""


@pytest.mark.parametrize("kind", WIDGETS)
def test_no_name_of_ours_replaces_one_of_ipywidgets(kind, box):
    widget, plain = kind(box), Plain()
    classes = [cls for cls in kind.__mro__ if cls.__module__.startswith("sbx_jupyter")]
    ours = {name for cls in classes for name in cls.__dict__} - Plain.__dict__.keys()
    ours |= vars(widget).keys() - vars(plain).keys()

    clashes = ours & set(dir(anywidget.AnyWidget)) - MEANT

    widget.close()
    plain.close()
    assert not clashes


@pytest.mark.parametrize("kind", WIDGETS)
def test_a_front_end_that_is_not_built_is_told_with_the_command(kind, box, front_ends):
    (front_ends / kind.bundle).unlink()

    with pytest.raises(FailedPreconditionError, match="make build"):
        kind(box)


@pytest.mark.parametrize("kind", WIDGETS)
def test_only_sandboxes_can_be_shown(kind):
    with pytest.raises(InvalidArgumentError, match="not a str"):
        kind("i0000")


async def test_a_sandbox_of_another_event_loop_can_be_shown(config):
    async with await AsyncSandbox.create(timeout=600, config=config) as box:
        widget = sbx_jupyter.Terminal(box)

        assert widget.sandbox_id == box.sandbox_id
        assert widget.pid in [process.pid for process in await box.commands.list()]
        widget.close()


def test_a_terminal_starts_its_shell_and_ends_it_with_itself(box):
    widget = sbx_jupyter.Terminal(box)
    assert widget.pid in _pids(box)

    widget.close()
    widget.close()

    for _ in range(200):
        if widget.pid not in _pids(box):
            break
    assert widget.pid not in _pids(box)


def test_a_terminal_that_cannot_be_made_leaves_no_shell(box):
    with pytest.raises(TraitError):
        sbx_jupyter.Terminal(box, height=200)

    until(lambda: not box.commands.list())


def test_a_terminal_of_another_shows_it_and_leaves_it(box):
    first = sbx_jupyter.Terminal(box)
    second = sbx_jupyter.Terminal(box, pid=first.pid)

    second.close()

    assert second.pid == first.pid
    assert first.pid in _pids(box)
    first.close()


def test_the_shell_that_a_page_began_is_owned_in_place_of_the_first(box):
    other = sbx_jupyter.Terminal(box)
    widget = sbx_jupyter.Terminal(box)
    first = widget.pid
    box.commands.kill(first)

    widget.set_state({"pid": other.pid})

    assert widget.pid == other.pid
    widget.close()
    until(lambda: not {first, other.pid} & set(_pids(box)))
    other.close()


def test_a_file_browser_starts_where_it_is_told(box):
    widget = sbx_jupyter.FileBrowser(box, path="/etc")

    assert widget.get_state()["path"] == "/etc"
    widget.close()


def test_a_saved_notebook_has_a_still_picture_without_anything_that_runs(box):
    hostile = "<img src=x onerror=alert(1)>.txt"
    box.files.write(f"/home/user/still/{hostile}", "x" * 1536)
    widget = sbx_jupyter.FileBrowser(box, path="/home/user/still", title="Files")

    bundle = widget._repr_mimebundle_()
    assert bundle is not None
    data, _ = bundle

    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    still = data[STILL_TYPE]
    assert (still["title"], still["sandbox"]) == ("Files", box.sandbox_id)
    assert [list(row) for row in still["rows"]] == [[hostile, "1.5 KiB"]]
    assert "&lt;img" in data["text/html"]
    assert "<img" not in data["text/html"]
    assert "Run the cell to reconnect" in data["text/html"]
    widget.close()


def test_a_still_picture_names_the_sandbox_as_the_panel_does(box):
    box.rename("analysis")
    widget = sbx_jupyter.MetricsChart(box)

    assert widget.still().sandbox == "analysis"
    widget.close()


def test_a_directory_that_is_not_there_leaves_the_still_picture_empty(box):
    widget = sbx_jupyter.FileBrowser(box, path="/no/such")

    assert widget.still().rows == []
    widget.close()


def test_readings_that_pages_show_become_the_history_once(box):
    widget = sbx_jupyter.MetricsChart(box)
    seen = []
    widget.observe(lambda change: seen.append(len(change["new"])), "history")
    reading = {
        **{"ts": 7, "cpu_count": 2, "cpu_used_pct": 50.0, "mem_used": 1, "mem_total": 2},
        **{"mem_cache": 0, "disk_used": 3, "disk_total": 4, "mem_total_mib": 5},
    }

    for content in (reading, reading, {**reading, "ts": 9}, {"ts": "never"}, None):
        widget._take_custom(widget, {"reading": content}, [])

    assert [row["ts"] for row in widget.history] == [7, 9]
    assert widget.history[0].keys() == reading.keys() - {"mem_total_mib"}
    assert seen == [1, 2]
    widget.close()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5 GiB")]
)
def test_sizes_are_written_in_the_largest_unit(size, text):
    assert size_text(size) == text


def _pids(box):
    return [process.pid for process in box.commands.list()]
