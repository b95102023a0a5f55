"""Printed results: the same facts in each format, and nothing that its reader would obey."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from ops.cli.output import OutputFormat, print_record, print_records, progress

RECORDS: list[dict[str, object]] = [
    {"id": 2**60, "text": "=1+1 \x1b[31m [red] :smile:", "when": datetime(2026, 5, 1, tzinfo=UTC)},
    {"id": 2, "text": None, "when": None, "more": {"a": [1, True]}},
]


def printed(capsys: pytest.CaptureFixture[str], output: OutputFormat) -> str:
    print_records(RECORDS, ("id", "text"), output, empty="nothing")
    return capsys.readouterr().out


def test_a_table_has_the_columns_and_obeys_no_markup(capsys: pytest.CaptureFixture[str]):
    out = printed(capsys, OutputFormat.TABLE)
    assert out.splitlines()[0].split() == ["ID", "TEXT"]
    assert "=1+1 �[31m [red] :smile:" in out
    assert "\x1b" not in out


def test_an_empty_table_says_so_on_stderr(capsys: pytest.CaptureFixture[str]):
    print_records([], ("id",), OutputFormat.TABLE, empty="No errors match.")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "No errors match.\n")


def test_json_has_everything_and_large_numbers_as_text(capsys: pytest.CaptureFixture[str]):
    out = printed(capsys, OutputFormat.JSON)
    first, second = json.loads(out)
    assert first["id"] == str(2**60)
    assert first["text"] == RECORDS[0]["text"]
    assert second["more"] == {"a": [1, True]}
    assert "\x1b" not in out


def test_empty_json_is_an_empty_list(capsys: pytest.CaptureFixture[str]):
    print_records([], ("id",), OutputFormat.JSON, empty="nothing")
    assert json.loads(capsys.readouterr().out) == []


def test_ndjson_has_one_object_per_line(capsys: pytest.CaptureFixture[str]):
    lines = printed(capsys, OutputFormat.NDJSON).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(2**60), 2]


def test_csv_has_all_columns_and_no_formula(capsys: pytest.CaptureFixture[str]):
    rows = list(csv.reader(io.StringIO(printed(capsys, OutputFormat.CSV))))
    assert rows[0] == ["id", "text", "when", "more"]
    assert rows[1] == [str(2**60), "'=1+1 �[31m [red] :smile:", "2026-05-01 00:00:00", ""]
    assert rows[2] == ["2", "", "", '{"a":[1,true]}']


@pytest.mark.parametrize("output", list(OutputFormat))
def test_one_record_in_every_format(output: OutputFormat, capsys: pytest.CaptureFixture[str]):
    print_record({"a": "x\x1b", "b": None, "c": False}, output)
    out = capsys.readouterr().out
    assert "a" in out
    assert "\x1b" not in out


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]):
    with progress("begins") as update:
        update("goes on")
    assert capsys.readouterr() == ("", "")
