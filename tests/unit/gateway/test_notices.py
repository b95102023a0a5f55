"""What the gateway says itself, and the texts of events."""

import msgspec
import pytest

from gateway.delivery.pieces import otherwise, pieces_of
from gateway.notices import LABELS, MAX_REMEMBERED, NoticeRates, Notices, unknown_notes
from gateway.steps import Piece
from shared.i18n import load_texts
from shared.segments import (
    THOUGHTS,
    AttemptSuperseded,
    Segment,
    SegmentKind,
    SegmentReady,
    TurnDone,
    TurnEvent,
    TurnFailed,
)
from shared.turns import CredentialSource, StopReason, TurnState

TEXTS = load_texts()
NOTICES = Notices(TEXTS)
CUT_OFF = TEXTS.text("notice.cut_off")
EMPTY_REPLY = TEXTS.text("notice.empty_reply")
STOPPED = TEXTS.text("notice.stopped")


def failure(**facts: object) -> TurnFailed:
    given: dict[str, object] = {"cause": "overloaded", "category": "provider_overloaded"}
    return TurnFailed(**(given | facts))  # type: ignore[arg-type]  # facts by name


def ready(text: str, kind: SegmentKind = SegmentKind.TEXT, *fallback: str) -> SegmentReady:
    segment = Segment(
        turn_id="l1", attempt=1, seq=1, kind=kind, text=text, start=0, end=1, fallback=fallback
    )
    return SegmentReady(segment=segment)


def texts_of(event: TurnEvent) -> tuple[str, ...]:
    return tuple(piece.text for piece in pieces_of(event, NOTICES, locale="en"))


@pytest.mark.parametrize(
    ("event", "notice"),
    [
        (TurnDone(count=1), None),
        (TurnDone(count=0), EMPTY_REPLY),
        (TurnDone(count=0, notes=("empty_reply",)), EMPTY_REPLY),
        (TurnDone(count=1, state=TurnState.CANCELLED), STOPPED),
        (
            TurnDone(count=1, state=TurnState.CANCELLED, notes=("replaced",)),
            "-# Stopped for your next message.",
        ),
        (TurnDone(count=0, state=TurnState.CANCELLED, notes=("replaced",)), None),
        (TurnDone(count=0, state=TurnState.CANCELLED, notes=("merged",)), None),
        (TurnDone(count=1, notes=("cut_off",)), f"-# {CUT_OFF}"),
        (TurnDone(count=1, notes=("of_a_newer_worker",)), None),
        (
            TurnDone(count=1, stop_reason=StopReason.LENGTH),
            "-# The answer was cut off: it reached the length limit.",
        ),
        (
            TurnDone(count=1, stop_reason=StopReason.LENGTH, notes=("length",)),
            "-# The answer was cut off: it reached the length limit.",
        ),
        (
            TurnDone(count=0, stop_reason=StopReason.CONTENT_FILTER),
            "-# The provider's filter ended the answer early.",
        ),
    ],
    ids=[
        "whole",
        "empty",
        "said to be empty",
        "stopped",
        "replaced while it was shown",
        "replaced while it waited",
        "merged",
        "note",
        "unknown note",
        "length",
        "length noted",
        "filtered",
    ],
)
def test_the_end_of_a_reply_says_what_is_missing(event, notice):
    assert NOTICES.of_done(event, is_silent=event.count == 0, locale="en") == notice
    assert texts_of(event) == (() if notice is None else (notice,))


@pytest.mark.parametrize("note", ["replaced", "merged"])
def test_a_command_is_told_that_the_next_message_is_answered(note):
    event = TurnDone(count=0, state=TurnState.CANCELLED, notes=(note,))
    (piece,) = pieces_of(event, NOTICES, locale="en", is_command=True)
    assert piece.text.startswith("-# ")
    assert unknown_notes(event) == ()


def test_a_failure_says_headline_tips_and_whose_fault_it_was():
    event = failure(headline="It is overloaded.", tips=("Wait a bit.",), code="529", count=2)
    assert NOTICES.of_failed(event, locale="en") == (
        "It is overloaded. The answer above was cut off.\n"
        "- Wait a bit.\n"
        "-# The fault lies with the model's provider. Code: 529"
    )


def test_a_failure_without_a_headline_still_says_something():
    assert NOTICES.of_failed(failure(fault="fault.user"), locale="en") == (
        "Something went wrong, and there is no answer.\n-# Whoever set this up can change it."
    )


def test_a_stopped_turn_says_so():
    assert NOTICES.of_failed(failure(state=TurnState.CANCELLED), locale="en") == STOPPED


def test_a_notice_fits_into_a_message():
    assert len(NOTICES.of_failed(failure(headline="x" * 3000), locale="en")) == 2000


def test_unknown_notes_are_named():
    assert unknown_notes(TurnDone(count=1, notes=("cut_off", "new", "empty_reply"))) == ("new",)


@pytest.mark.parametrize(
    ("event", "pieces"),
    [
        (ready("hello"), ("hello",)),
        (ready("```\nx\n```", SegmentKind.CODE), ("```\nx\n```",)),
        (ready(" \n "), ()),
        (AttemptSuperseded(attempt=1, by=2), ()),
    ],
    ids=["text", "code", "blank", "superseded"],
)
def test_events_are_shown_by_their_texts(event, pieces):
    assert texts_of(event) == pieces


@pytest.mark.parametrize(
    ("event", "plain"),
    [
        (ready("| a |", SegmentKind.TABLE, "a", " ", "b"), ("a", "b")),
        (ready("| a |", SegmentKind.TABLE), ("| a |",)),
        (ready("```py\nx\n```", SegmentKind.FILE, "```py\nx\n```"), ("```py\nx\n```",)),
    ],
    ids=["table", "bare table", "file"],
)
def test_what_is_no_message_has_a_plain_form(event, plain):
    (piece,) = pieces_of(event, NOTICES, locale="en")
    assert tuple(part.text for part in otherwise(piece)) == plain


def test_a_file_has_the_code_without_its_fence():
    (piece,) = pieces_of(ready("```py\nx = 1\n\ny\n```", SegmentKind.FILE), NOTICES, locale="en")
    assert [file.data for file in piece.files] == [b"x = 1\n\ny"]


def test_a_refused_text_is_halved_then_a_file_then_given_up():
    halves = otherwise(Piece(text="one two\nthree four"))
    assert [half.text for half in halves] == ["one two", "three four"]
    (file,) = otherwise(halves[0])
    assert (file.text, file.files[0].data) == ("", b"one two")
    assert otherwise(file) == ()


@pytest.mark.parametrize("text", ["x", "xy", "a b", " a", "a ", "\n\n", "x" * 99])
def test_halves_lose_nothing_but_the_blank_between(text):
    halves = otherwise(Piece(text=text))
    assert 1 <= len(halves) <= 2
    assert "".join(half.text for half in halves).replace(" ", "").strip() == (
        text.replace(" ", "").strip()
    )


@pytest.mark.parametrize(
    "text",
    ["x" * 4500, "line\n" * 900, "x" * 1999 + "\n" + "y" * 1999, "🎉" * 2001],
    ids=["one line", "lines", "at the edge", "astral"],
)
def test_a_text_over_the_limit_is_cut_and_nothing_is_lost(text):
    pieces = pieces_of(ready(text), NOTICES, locale="en")
    assert "".join(piece.text for piece in pieces) == text
    assert max(len(piece.text) for piece in pieces) <= 2000


@pytest.mark.parametrize("key", ["notice.no_worker", "notice.lost_in_tool", "failure.worker_lost"])
def test_a_headline_of_the_queues_scripts_is_said_in_the_persons_language(key: str):
    for locale in ("en", "ja", "zh-CN"):
        said = NOTICES.of_failed(failure(headline=key), locale=locale)
        assert said.startswith(TEXTS.text(key, locale))


LENGTH = TurnDone(count=1, stop_reason=StopReason.LENGTH)
THOUGHT = TurnDone(count=1, notes=(THOUGHTS,))


@pytest.mark.parametrize(
    ("event", "ids"),
    [
        (failure(report_id="r1"), ["retry:m1", "error:r1"]),
        (failure(), ["retry:m1"]),
        (failure(cause="quota_exhausted", report_id="r1"), ["error:r1"]),
        (failure(report_id="r1", credential_source=CredentialSource.SUPPORTER), ["retry:m1"]),
        (failure(state=TurnState.CANCELLED, report_id="r1"), []),
        (LENGTH, ["continue:m1"]),
        (msgspec.structs.replace(LENGTH, state=TurnState.CANCELLED), []),
        (THOUGHT, ["thoughts:m1"]),
        (msgspec.structs.replace(LENGTH, notes=(THOUGHTS,)), ["continue:m1", "thoughts:m1"]),
        (TurnDone(count=1), []),
    ],
    ids=["failed", "no details", "billing", "supporter", "stopped", "length", "stopped at length",
         "thoughts", "both", "whole"],
)  # fmt: skip
def test_the_end_of_a_turn_has_the_buttons_that_fit(event, ids):
    buttons = NOTICES.buttons_of(event, "m1", locale="ja")
    assert [button.custom_id for button in buttons] == ids
    assert all(button.label == TEXTS.text(LABELS[button.custom_id.partition(":")[0]], "ja")
               for button in buttons)  # fmt: skip


def test_thoughts_and_a_stand_in_are_said_in_small_print():
    event = TurnDone(count=1, notes=("fallback", THOUGHTS))
    said = NOTICES.of_done(event, is_silent=False, locale="en")
    assert said == f"-# {TEXTS.text('notice.fallback')}\n-# {TEXTS.text('notice.thoughts')}"


def test_buttons_stand_below_what_is_said_and_not_in_a_local_channel():
    (piece,) = pieces_of(failure(report_id="r1"), NOTICES, locale="en", turn_id="m1")
    assert [button.label for button in piece.buttons] == ["Retry", "Show full error"]
    (piece,) = pieces_of(failure(report_id="r1"), NOTICES, locale="en")
    assert piece.buttons == ()


def test_a_person_is_told_once_and_a_channel_three_times_in_ten_seconds():
    rates = NoticeRates()
    assert [rates.may(1, user, 0) for user in (5, 5, 6, 7, 8)] == [True, False, True, True, False]
    assert rates.may(2, 5, 0)  # another channel
    assert not rates.may(1, 5, 9_999)
    assert [rates.may(1, user, 10_000) for user in (5, 6, 7, 8)] == [True, True, True, False]


def test_what_is_remembered_of_notices_is_bounded():
    rates = NoticeRates()
    for number in range(MAX_REMEMBERED + 1):
        assert rates.may(number, number, 0)
    assert rates.may(0, 0, 1)  # forgotten, and told once more
    assert not rates.may(5, 5, 1)
