"""What code in a sandbox displays cannot act in the page that shows it."""

from __future__ import annotations

import base64
import html
import re
import time

import pytest

from sbx_jupyter.display import bundle, formulas, frames, markdown, reports, tables, text
from sbx_jupyter.widgets.still import Still

PICTURE = base64.b64encode(b"\x89PNG").decode()
PANDAS = """<div>
<style scoped>
    .dataframe tbody tr th { vertical-align: top; }
</style>
<table border="1" class="dataframe">
  <thead><tr style="text-align: right;"><th></th><th>n</th></tr></thead>
  <tbody><tr><th>0</th><td>a &lt;b&gt; &amp;</td></tr></tbody>
</table>
<p>1 row and 1 column</p>
</div>"""


def document_of(shown: str) -> str:
    """The document in a frame."""
    found = re.search(r'srcdoc="([^"]*)"', shown)
    assert found is not None
    return html.unescape(found[1])


def test_a_data_frame_becomes_a_table_of_our_own():
    table = tables.plain_table(PANDAS)

    assert table is not None
    assert '<table class="dataframe">' in table
    assert "<td>a &lt;b&gt; &amp;</td>" in table
    assert "style" not in table


@pytest.mark.parametrize(
    "hostile",
    [
        "<table><tr><td><script>1</script></td></tr></table>",
        "<table><tr><td onclick='1'>x</td></tr></table>",
        "<table><tr><td data-commandlinker-command='x'>x</td></tr></table>",
        "<table><tr><td><a href='javascript:1'>x</a></td></tr></table>",
        "<table><tr><td style='position:fixed'>x</td></tr></table>",
        "<table class='jp-Dialog'><tr><td>x</td></tr></table>",
        "<style>body{display:none}</style><table></table>",
        "<table><tr><td>x</tr></table>",
        "<table><!-- --></table>",
        "<table>",
        "<b>no table</b>",
        "<table><svg><td>x</td></svg></table>",
    ],
)
def test_html_that_is_no_plain_table_goes_into_a_frame(hostile):
    shown = bundle.safe_bundle({"html": hostile})["text/html"]

    assert re.fullmatch(r"<iframe [^>]*></iframe>", shown)
    assert 'sandbox="allow-scripts"' in shown
    assert "allow-same-origin" not in shown
    document = document_of(shown)
    assert document.index("Content-Security-Policy") < document.index(hostile)


@pytest.mark.parametrize(
    "piece", ["<!--", "<a", "<td>", '<a x="', "<a x='", "<![", "<?", "</", "<td ", "<style scoped>"]
)
def test_html_of_pieces_that_are_never_closed_is_checked_in_little_time(piece):
    begun = time.process_time()

    assert tables.plain_table(piece * (200_000 // len(piece))) is None
    assert time.process_time() - begun < 3


def test_long_markdown_is_shown_as_text():
    text = "![" * bundle.MAX_MARKDOWN
    begun = time.process_time()

    assert bundle.safe_bundle({"markdown": text}) == {"text/plain": text}
    assert time.process_time() - begun < 3


def test_a_script_cannot_end_the_element_that_it_stands_in():
    shown = frames.script_frame("'</script><script>parent.alert(1)</script>'")
    document = document_of(shown)

    assert document.count("</script>") == 1


def test_pictures_are_checked_and_bounded(monkeypatch):
    assert bundle.safe_bundle({"png": PICTURE})["image/png"] == PICTURE
    assert "damaged" in bundle.safe_bundle({"png": '"><script>'})["text/plain"]
    monkeypatch.setattr(bundle, "MAX_PICTURE", 4)
    shown = bundle.safe_bundle({"png": PICTURE * 2})
    assert set(shown) == {"text/plain"}
    assert "not drawn" in shown["text/plain"]


def test_a_vector_picture_is_the_source_of_an_image():
    shown = bundle.safe_bundle({"svg": "<svg onload='alert(1)'/>", "text": "t"})

    assert shown["text/plain"] == "t"
    assert re.fullmatch(r'<img [^>]*src="data:image/svg\+xml;base64,[\w+/=]+">', shown["text/html"])


def test_markdown_runs_and_loads_nothing():
    shown = markdown.render(
        "# T\n\n<script>1</script> [a](javascript:1) ![p](http://tracker/x.png) `code`"
    )

    assert "<h1>T</h1>" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "href" not in shown.replace('href="http://tracker/x.png"', "")


def test_latex_that_makes_links_is_shown_as_text():
    assert bundle.safe_bundle({"latex": r"$\frac{1}{2}$"})["text/latex"] == r"$\frac{1}{2}$"
    assert "text/latex" not in bundle.safe_bundle({"latex": r"$\href{javascript:1}{x}$"})


ACTIVE = [
    r"\href{javascript:1}{x}",
    r"\mmlToken{mi}[href=javascript:1]{x}",
    r"\bbox[background:url(http://tracker/)]{x}",
    r"\style{position:fixed;inset:0}{x}",
    r"\class1{x}",
    r"\require{html}",
    r"\newcommand{\x}{y}",
    r"\DeclareMathOperator{\x}{y}",
    r"\def\frac#1#2{x}",
    r"\let\frac=x",
]


@pytest.mark.parametrize("active", ACTIVE)
def test_formulas_that_could_act_are_drawn_nowhere(active):
    quiet = f'<div class="{formulas.UNDRAWN}">'
    assert "text/latex" not in bundle.safe_bundle({"latex": f"${active}$"})
    cell = html.escape(active)
    for fields in (
        {"markdown": "text $" + active.replace("\\", "\\\\") + "$"},
        {"html": f"<table><tr><td>${cell}$</td></tr></table>"},
        {"html": f"<table><tr><td>${cell.replace(chr(92), '&#92;')}$</td></tr></table>"},
    ):
        assert bundle.safe_bundle(fields)["text/html"].startswith(quiet)


def test_other_formulas_are_drawn():
    formula = r"$\left(\frac{\alpha}{2}\right) \leq \text{new} \hrefless \defined$"
    assert bundle.safe_bundle({"latex": formula})["text/latex"] == formula
    shown = bundle.safe_bundle({"markdown": formula.replace("\\", "\\\\")})["text/html"]
    assert formulas.UNDRAWN not in shown
    table = bundle.safe_bundle({"html": f"<table><tr><td>{formula}</td></tr></table>"})
    assert formulas.UNDRAWN not in table["text/html"]


def test_dollar_signs_in_names_are_no_formulas():
    name = r"$\style{position:fixed}{x}$"
    for shown in (
        reports.card("t", [("name", name)]),
        reports.table(["name"], [[name]]),
        reports.command(stdout="", stderr="", exit_code=1, error=name),
        reports.execution(stdout="", stderr="", results=[], error=(name, name), truncated=False),
        Still(name, "s", "now", [(name, "1")]).to_html(),
    ):
        before, _, _ = shown.partition(name)
        assert formulas.UNDRAWN in before


def test_widgets_and_unknown_kinds_are_named_and_never_passed_on():
    widget = bundle.safe_bundle({"extra": {bundle.WIDGET: {"model_id": "x"}}})
    unknown = bundle.safe_bundle({"extra": {"application/x-own": "data"}})

    assert set(widget) == set(unknown) == {"text/plain"}
    assert "kernel is in the sandbox" in widget["text/plain"]
    assert "application/x-own" in unknown["text/plain"]


def test_text_keeps_colours_and_loses_what_is_no_text():
    assert text.clean("\x1b[31mred\x1b[0m\tx\r\n") == ("\x1b[31mred\x1b[0m\tx\r\n", 0)
    assert text.clean("a\x00b\x1b[2Jc\x1b]0;title\x07d") == ("a\ufffdbc\ufffdd", 2)
    assert text.plain("\x1b[31mred\x1b[0m") == "red"
    assert text.one_line("a\nb   c") == "a b c"
    assert len(text.one_line("x" * 1000)) == 200


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (3_400_000_000, "3.4 GB")]
)
def test_sizes_are_for_people(count, shown):
    assert text.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.012, "12 ms"), (3.44, "3.4 s"), (125, "2 min 5 s")]
)
def test_durations_are_for_people(seconds, shown):
    assert text.duration(seconds) == shown


def nested(levels: int) -> list[object]:
    made: list[object] = []
    for _ in range(levels - 1):
        made = [made]
    return made


def test_json_with_many_levels_is_told_and_not_drawn():
    """Programs that keep notebooks copy results level by level."""
    shown = bundle.safe_bundle({"text": "x", "json": nested(bundle.MAX_DEPTH)})
    deep = bundle.safe_bundle({"text": "x", "json": nested(bundle.MAX_DEPTH + 1)})

    assert shown["application/json"]
    assert deep == {"text/plain": "[JSON is not drawn: it has more than 100 levels]"}


def test_a_result_that_breaks_its_drawing_is_a_line():
    broken = bundle.safe_bundle({"extra": 5})

    assert broken == {"text/plain": "[a result that cannot be drawn: TypeError]"}
