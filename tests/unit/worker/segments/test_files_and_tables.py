"""Long code as a file, tables with their source: both with a fallback that fits messages."""

import time

import pytest

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode, SegmentKind
from tests.support.segmenting import Run, texts
from worker.segments.rewrites import fenced, file_name, split_code
from worker.segments.tables import aligned, cells, display_width, is_separator, looks_like_header

L = DeliveryMode.LINE


def code(lines: int, info: str = "c++") -> str:
    return f"```{info}\n" + "".join(f"int x{at} = {at};\n" for at in range(lines)) + "```\n"


def test_from_the_third_message_on_code_is_one_file():
    run = Run([code(600)], L)
    assert run.kinds == ["code", "code", "file"]
    file = run.segments[-1]
    assert file.filename == "code.cpp"
    assert file.text.startswith("```c++\nint x")
    assert all(len(text) <= MAX_SEGMENT_CHARS for text in file.fallback)
    assert all(text.startswith("```c++\n") and text.endswith("\n```") for text in file.fallback)
    lines = "\n".join(text[7:-4] for text in (*run.texts[:2], *file.fallback))
    assert lines == "\n".join(f"int x{at} = {at};" for at in range(600))


def test_code_behind_a_full_file_goes_on_in_another():
    run = Run(["```\n" + "x = 1\n" * 6000 + "```"], L)
    assert run.kinds == ["code", "code", "file", "file", "file"]
    assert all(len(segment.text.encode()) <= 64 * 1024 for segment in run.segments)
    assert sum(text.count("x = 1") for text in run.texts) == 6000


def test_a_rest_that_fits_a_message_is_no_file():
    assert Run([code(230)], L).kinds == ["code", "code"]
    assert set(Run([code(290)], L).kinds) == {"code"}


def test_code_in_a_quote_is_a_file_without_its_marks():
    run = Run(["> ```py\n" + "> y = 2\n" * 900 + "> ```\nend"], L)
    assert run.kinds == ["code", "code", "file", "text"]
    assert all(line == "y = 2" for line in run.segments[2].text.split("\n")[1:-1])


def test_code_before_a_file_is_packed_and_the_file_is_not():
    run = Run(["Hi\n" + code(600) + "end\n"], DeliveryMode.AGGREGATED)
    assert run.kinds == ["text", "code", "code", "file", "text"]


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("", "code.txt"),
        ("py", "code.py"),
        ("Python", "code.py"),
        ("c++", "code.cpp"),
        ("a.b", "code.txt"),
    ],
)
def test_a_file_is_named_after_its_language(info: str, name: str):
    assert file_name(info) == name


def test_split_code_cuts_at_lines_and_within_long_ones():
    assert split_code("a\nb\n" + "c" * 12 + "\n\n", "py", "", 8) == (
        "```py\na\nb\n```",
        "```py\ncccccccc\n```",
        "```py\ncccc\n\n```",
    )
    assert split_code("\n \n", "py", "", 8) == ()


def test_fenced_repeats_the_mark_of_a_quote_that_was_cut():
    assert fenced("a\n> b\n", "py", "||", "> ") == "> ||```py\n> a\n> b\n> ```||"


def test_a_table_has_an_aligned_fallback():
    run = Run(["| Name | 数 |\n|:--|--:|\n| é | 1 |\n| 日本語 | 22 | 3 |\n| e\u0301 | \\| |\n"], L)
    (segment,) = run.segments
    assert segment.kind is SegmentKind.TABLE
    lines = [
        "Name   | 数",
        "-------+----+--",
        "é      | 1",
        "日本語 | 22 | 3",
        "e\u0301      | \\|",
    ]
    assert segment.fallback == ("\n".join(["```", *lines, "```"]),)


def test_a_fallback_cannot_leave_its_fence_and_pads_no_long_cell():
    rows = ["| a | b |", "|--|--|", "| ``` | " + "x" * 200 + " |", "| 1 | 2 |"]
    (text,) = aligned(rows, 1900)
    assert text.count("```") == 2
    assert max(map(len, text.split("\n"))) < 220


def wide(columns: int, rows: int) -> list[str]:
    """A table with one long cell in each column, and short ones below."""
    long = "|".join("x" * 40 for _ in range(columns))
    short = ["|".join("1" for _ in range(columns))] * rows
    return [f"|{row}|" for row in ("|".join("h" * columns), "|".join("-" * columns), long, *short)]


@pytest.mark.parametrize(("columns", "rows"), [(100, 40), (20, 150), (3, 1500), (300, 2)])
def test_a_wide_table_is_not_blown_up_by_blanks(columns: int, rows: int):
    source = wide(columns, rows)
    size = sum(map(len, source))
    texts = aligned(source, 1900)
    assert sum(map(len, texts)) <= 2 * size + 9 * len(texts)
    assert len(texts) <= 2 * size // 1900 + 2
    rows_shown = "".join(text.removeprefix("```\n").removesuffix("```") for text in texts)
    assert rows_shown.count("1") == columns * rows


def test_a_table_that_is_one_message_is_aligned_however_much_that_takes():
    (text,) = aligned(wide(5, 5), 1900)
    assert text.count(" | ") == 4 * 7
    assert len(text) > 2 * sum(map(len, wide(5, 5)))


def test_rows_as_they_were_written_cannot_leave_their_fence():
    texts = aligned([*wide(100, 40), "| ``` |"], 1900)
    assert {text.count("```") for text in texts} == {2}


def test_the_cost_of_a_table_with_one_row_of_many_cells_is_linear():
    rows = ["|a|b|", "|-|-|", "|" * 20_000, *["|a|"] * 20_000]
    started = time.process_time()
    aligned(rows, 1900)
    assert time.process_time() - started < 2.0


def test_a_table_is_cut_between_rows_and_its_head_repeated():
    text = "| a | b |\n|--|--|\n" + "| row | x |\n" * 3000
    run = Run([text], L)
    assert run.kinds == ["table"] * 3
    assert all(found.startswith("| a | b |\n|--|--|\n| row") for found in run.texts)
    assert sum(found.count("row") for found in run.texts) == 3000
    assert [s.start for s in run.segments[1:]] == [s.end for s in run.segments[:-1]]
    assert all(len(text) <= MAX_SEGMENT_CHARS for s in run.segments for text in s.fallback)


@pytest.mark.parametrize(
    ("line", "count"),
    [("| a | b |", 2), ("a | b", 2), ("|a\\|b|", 1), ("| a | b \\|", 2), ("", 1)],
)
def test_cells_of_a_line(line: str, count: int):
    assert len(cells(line)) == count


def test_heads_and_rules():
    assert looks_like_header("| a | |")
    assert not any(map(looks_like_header, ["", "> a | b", "a", "| | |", "|--|--|"]))
    assert is_separator("|:-:|--|", 2)
    assert not any(is_separator(line, 2) for line in ["|::|--|", "|--|", "-- --", "||"])


def test_width_of_a_cell():
    assert [display_width(text) for text in ("ab", "日", "e\u0301", "")] == [2, 2, 1, 0]


@pytest.mark.parametrize("mark", ["(", '"', "**", "「"])
def test_a_head_is_not_said_twice_when_a_mark_in_it_kept_its_sentences_back(mark: str):
    head = f"{mark}One. Two. a | b"
    run = Run([f"Before.\n{head}\n--- | ---\nc | d\n"], DeliveryMode.SENTENCE)
    assert run.texts == ["Before.", f"{head}\n--- | ---\nc | d"]
    assert run.kinds == ["text", "table"]


def test_a_line_that_begins_as_a_row_has_no_sentences_of_its_own():
    table = "| No. | What is it? |\n|---|---|\n| 1. | A tea. Or not. |"
    run = Run([f"See:\n{table}\nDone. x"], DeliveryMode.SENTENCE)
    assert run.texts == ["See:", table, "Done.", "x"]
    assert texts("||So. No|| x. y", DeliveryMode.SENTENCE) == ["||So. No|| x.", "y"]
