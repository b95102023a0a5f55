"""The filters of a text: each row's example in both directions, and what they never touch."""

import pytest

from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer
from worker.segments.cleaning import ROWS, Cleaner, Cleaning, Row, code_spans

CLEANING = Cleaning(
    own_names=("Tomo", "Tomo Bot"),
    emoji={"wave": "<:wave:77>", "party": "<a:party:78>"},
    members={"ann": 7, "everyone": 9},
)


def reply(text: str, cleaning: Cleaning, mode: DeliveryMode = DeliveryMode.LINE) -> list[str]:
    buffer = SegmentBuffer("l1", 1, mode=mode, cleaning=cleaning)
    return [segment.text for segment in buffer.feed(text) + buffer.flush()]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_changes_its_example_and_nothing_else(row: Row):
    cleaner = Cleaner(CLEANING)
    assert cleaner.clean(row.example.before, at_line_start=True) == row.example.after
    assert cleaner.clean(row.example.untouched, at_line_start=True) == row.example.untouched
    assert cleaner.clean(row.example.after, at_line_start=True) == row.example.after


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_code_is_never_touched(row: Row):
    line = row.example.before.split("\n")[0]
    text = f"a `{line}` ``b ` {line}``"
    assert Cleaner(CLEANING).clean(text, at_line_start=True) == text
    assert reply(f"```\n{line}\n```", CLEANING) == [f"```\n{line}\n```"]


def test_without_facts_only_control_tokens_go():
    text = "Tomo: :wave: @ann"
    assert reply(text + "<|eot_id|>", Cleaning()) == [text]


def test_a_message_of_a_control_token_is_not_sent():
    assert reply("Hi\n<|im_end|>\n", Cleaning()) == ["Hi"]


def test_a_label_in_the_middle_of_a_cut_line_stays():
    assert Cleaner(CLEANING).clean("Tomo: x\nTomo: y", at_line_start=False) == "Tomo: x\ny"


def test_a_repair_that_does_not_fit_is_left_out():
    text = ":wave: " * 250 + "<|im_end|>"
    assert Cleaner(CLEANING).clean(text, at_line_start=True) == ":wave: " * 250


@pytest.mark.parametrize(
    "mode", [DeliveryMode.LINE, DeliveryMode.PARAGRAPH, DeliveryMode.AGGREGATED]
)
def test_the_reply_ends_at_another_speakers_label(mode: DeliveryMode):
    text = "||Hi there\nAnn: and me\nmore\n```\nx\n```\n| a | b |\n|--|--|\n"
    assert "".join(reply(text, Cleaning(speakers=("Ann",)), mode)) == "||Hi there||"


def test_a_driver_learns_that_the_reply_was_ended():
    buffer = SegmentBuffer("l1", 1, cleaning=Cleaning(speakers=("Ann",)))
    assert buffer.feed("Hi\nAnn: x\n\ny") == buffer.feed("") or buffer.stopped
    assert [segment.text for segment in buffer.flush()] == []
    assert buffer.stopped


def test_a_label_in_code_or_within_a_line_is_no_speaker():
    text = "`x\nAnn: y` and Ann: z"
    assert reply(text, Cleaning(speakers=("Ann",))) == [text]
    cleaner = Cleaner(Cleaning(speakers=("Ann",)))
    assert cleaner.guard("Ann: x", at_line_start=False) is None
    assert cleaner.guard("Ann: x", at_line_start=True) == 0
    assert cleaner.guard("no label", at_line_start=True) is None


def test_code_spans_pair_equal_runs():
    assert code_spans("a `b` ``c ` d`` ` e") == [(2, 5), (6, 15)]
