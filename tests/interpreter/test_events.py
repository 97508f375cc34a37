"""What the interpreter sends for what a kernel says, without a kernel (interface 5.2)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json

import numpy as np
import pytest

from sbx_jupyter.interpreter import events
from sbx_jupyter.interpreter.plain_json import LARGEST, as_json
from sbx_jupyter.protocol import access


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_an_event_is_one_line_whatever_a_client_takes_for_its_end(end):
    event = {"type": "stdout", "text": f"ä{end}b", "timestamp": ""}

    line = events.encode(event).decode()

    assert len(line.splitlines()) == 1
    assert json.loads(line) == event


def test_half_a_character_is_sent_as_an_escape():
    event = {"type": "stdout", "text": "\ud800", "timestamp": ""}

    assert json.loads(events.encode(event)) == event


def test_only_notebooks_get_colours():
    coloured = events.error("E", "why", "\x1b[0;31mE\x1b[0m: why")

    assert events.for_notebook(dict(coloured)) == coloured
    assert events.for_program(dict(coloured))["traceback"] == "E: why"
    assert events.NOTEBOOK_HEADER == access.NOTEBOOK_HEADER


def test_only_programs_get_plain_data_as_json():
    bundle = {"text/plain": "[1]", "e2b/json": [1]}

    result = events.result(bundle, is_main=True)

    shown = {"type": "result", "is_main_result": True, "text": "[1]"}
    assert events.for_notebook(dict(result)) == shown
    assert events.for_program(dict(result)) == shown | {"json": [1]}


def test_what_says_json_itself_is_sent_as_it_says():
    bundle = {"application/json": {"own": 1}, "e2b/json": {"other": 2}}

    assert events.for_program(events.result(bundle, is_main=True))["json"] == {"own": 1}


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ([], []),
        ({"a": (1, 2.5, None, True, "ü")}, {"a": [1, 2.5, None, True, "ü"]}),
        ({2: "a", None: "b", False: "c"}, {"2": "a", "null": "b", "false": "c"}),
        ([float("nan"), dt.date(2024, 1, 2), Colour.RED], [None, "2024-01-02", "red"]),
        ([Point(1, 2.0)], [{"x": 1, "y": 2.0}]),
        ({"n": np.array([[1, 2]]), "s": np.float64(0.5)}, {"n": [[1, 2]], "s": 0.5}),
        ([object()], None),
        ([{1, 2}], None),
        ([b"raw"], None),
        ([1 << 64], None),
        ({(1, 2): 3}, None),
        (["x" * (LARGEST + 1)], None),
        ([np.zeros(LARGEST + 1)], None),
    ],
)
def test_lists_and_dicts_become_json_where_it_can_say_them(value, data):
    assert as_json(value) == data


def test_what_holds_itself_is_no_json():
    endless: list[object] = []
    endless.append(endless)

    assert as_json(endless) is None
