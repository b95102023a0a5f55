"""`turnfleet segment` through the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app

runner = CliRunner()


@pytest.fixture
def reply(tmp_path: Path) -> Path:
    file = tmp_path / "reply.md"
    file.write_bytes("One.\r\nTwo <think>x</think>é.\xff".encode().replace(b"\xc3\xbf", b"\xff"))
    return file


def test_records_of_several_files_as_lines_of_json(reply: Path):
    result = runner.invoke(
        app, ["segment", str(reply), str(reply), "--mode", "line", "-o", "ndjson"]
    )
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["One.", "Two é.\ufffd"] * 2
    assert rows[0]["file"] == str(reply)


def test_a_cut_gives_the_same_table(reply: Path):
    whole, cut = (runner.invoke(app, ["segment", str(reply), "--cut", n]) for n in ("0", "1"))
    assert whole.exit_code == 0
    assert whole.stdout == cut.stdout


def test_render_shows_messages_and_tells_what_is_hidden(reply: Path):
    result = runner.invoke(app, ["segment", str(reply), "--render"])
    assert "One.\nTwo é." in result.stdout
    assert "1 private blocks were taken out" in result.stderr


def test_stdin_is_a_dash():
    result = runner.invoke(app, ["segment", "-", "--render"], input="Hi\n")
    assert "Hi" in result.stdout
    assert "private" not in result.stderr


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path):
    result = runner.invoke(app, ["segment", str(tmp_path / "none.md")])
    assert result.exit_code != 0
    assert "cannot be read" in result.output
