"""Markup of models, value by value: forms beside the rows' own examples."""

import json
from pathlib import Path

import pytest

from tests.support.chunks import show, tool
from worker.chunks.call_syntax import Tools
from worker.chunks.tool_dialects import DIALECTS, cut_call

TOOLS = Tools([tool("t", ["a"], a="string", n="integer", b="boolean", o="object"), tool("u")])
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
ROWS = json.loads(
    (Path(__file__).parents[3] / "data" / "chunks" / "dialect_bodies.json").read_text("utf-8")
)["bodies"]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['dialect']}: {row['body']}" for row in ROWS])
def test_body(row):
    calls = BY_NAME[row["dialect"]].parse(row["body"], TOOLS)
    assert (None if calls is None else show(calls)) == row["calls"]


def test_every_dialect_has_bodies():
    assert {row["dialect"] for row in ROWS} == set(BY_NAME)


def test_a_body_that_nests_without_end_holds_no_call():
    assert BY_NAME["tool_call tags"].parse("[" * 5000, TOOLS) is None


def test_without_tools_code_holds_no_call():
    assert BY_NAME["Gemma tool code"].parse("u()", Tools([])) is None


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"name": "t", "argu', "t"),
        ("print(u(", "u"),
        ("call:u{", "u"),
        ("other(", None),
        ("{", None),
    ],
)
def test_the_name_of_a_cut_body(body, name):
    called = cut_call(body, TOOLS)
    assert (called and called.name) == name
