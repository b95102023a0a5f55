"""Text of an attacker on a terminal, in a spreadsheet and in JSON: it is only text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.terminal import csv_cell, json_text, one_line, plain


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        pytest.param("\x1b[2J\x1b]0;title\x07", "�[2J�]0;title�", id="escape_sequences"),
        pytest.param("\x9b31mred", "�31mred", id="c1_escape"),
        pytest.param("a\rb\x08c\0", "a�b�c�", id="overwriting"),
        pytest.param("user\u202egnp.exe", "user�gnp.exe", id="bidi_override"),
        pytest.param("a\u2066b\u2069", "a�b�", id="bidi_isolate"),
        pytest.param("pay\u200bpal", "pay�pal", id="zero_width"),
        pytest.param("x\U000e0041\U000e007f", "x��", id="tag_characters"),
        pytest.param("line\nnext\ttab", "line\nnext\ttab", id="lines_and_tabs_are_kept"),
        pytest.param("👩‍👩‍👧 é 日本", "👩‍👩‍👧 é 日本", id="other_text_is_kept"),
    ],
)
def test_a_terminal_gets_nothing_that_it_obeys(hostile: str, shown: str):
    assert plain(hostile) == shown


@given(st.text(st.characters(codec=None)), st.integers(2, 50))
def test_a_cell_is_one_short_line(text: str, limit: int):
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    line.encode()


@pytest.mark.parametrize(
    "formula", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\n=cmd|' /C calc'!A0"]
)
def test_a_spreadsheet_gets_no_formula(formula: str):
    assert csv_cell(formula).startswith("'")


def test_ordinary_cells_are_left_alone():
    assert csv_cell("a = b") == "a = b"


def test_invisible_characters_of_other_planes_are_escaped_as_pairs():
    assert json_text('"\U000e0041"') == '"\\udb40\\udc41"'
    assert json.loads(json_text('"\U000e0041"')) == "\U000e0041"


@given(st.text())
def test_escaped_json_is_the_same_json(text: str):
    encoded = json.dumps({"k": text}, ensure_ascii=False)
    safe = json_text(encoded)
    assert json.loads(safe) == {"k": text}
    assert plain(safe) == safe
