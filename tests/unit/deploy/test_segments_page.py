"""docs/segments.md: its example is run, its numbers and modules are those of the room."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode
from worker.segments.cleaning import MAX_CLEAN_CHARS
from worker.segments.code import MESSAGES_OF_A_BLOCK
from worker.segments.limits import (
    AGGREGATED,
    CHAT,
    LONGEST_HOLD_S,
    STALL_LINE_S,
    STALL_MIN_CHARS,
    STALL_TEXT_S,
)
from worker.turn.attempt import PREVIEW_EVERY_S, TICK_S
from worker.turn.pictures import MAX_PICTURES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "segments.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
ROOM = sorted(path.name for path in (ROOT / "worker" / "segments").glob("[!_]*.py"))
FILES = re.findall(r"`((?:worker|shared|gateway|tests|benchmarks)/[\w/.-]+)`", PAGE)


def fenced(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_gives_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("reply.md").write_text(fenced("markdown"), encoding="utf-8")
    result = CliRunner().invoke(app, ["segment", "reply.md", "--render"])
    assert result.exit_code == 0
    assert result.stdout.strip() == fenced("text").strip()


def test_every_mode_has_its_row():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [mode.value for mode in DeliveryMode]


@pytest.mark.parametrize("module", ROOM)
def test_every_module_of_the_room_has_its_place(module: str):
    assert f"`{module}`" in PAGE.split("## Where what lives")[1]


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_the_page_names_is_there(file: str):
    assert (ROOT / file).exists()


@pytest.mark.parametrize(
    "words",
    [
        f"at most {MAX_SEGMENT_CHARS:,} characters",
        f"when {CHAT.window:,} characters were read: at the first sentence end from "
        f"{CHAT.soft:,} on, else at the last one from {CHAT.back} on",
        f"these are {AGGREGATED.window:,}, {AGGREGATED.soft:,} and {AGGREGATED.back:,}",
        f"Own text has {CHAT.body:,} at most",
        f"up to {AGGREGATED.body:,} characters of text and code",
        f"after {CHAT.rest:,} characters",
        f"for {CHAT.hold} characters, and until a blank line",
        f"{STALL_LINE_S:g} s in `line`, and for {STALL_TEXT_S:g} s in",
        f"of {STALL_MIN_CHARS} characters or more the whole sentences",
        f"waits {LONGEST_HOLD_S:g} s at most",
        f"every {PREVIEW_EVERY_S:g} s at most",
    ],
)
def test_the_numbers_are_those_of_the_code(words: str):
    assert words in WORDS


def test_what_the_page_says_in_words_is_so():
    assert (TICK_S, MESSAGES_OF_A_BLOCK, MAX_PICTURES) == (0.25, 2, 4)
    assert CHAT.body < MAX_CLEAN_CHARS < MAX_SEGMENT_CHARS
