"""A message that grows while a reader watches: previews, and the segment that takes their place."""

import pytest

from gateway.delivery.runs import has_end
from gateway.front import Refusal, Refused, Unavailable
from gateway.sequencer import TurnSequencer
from tests.support.delivery import Bench
from tests.support.envelopes import done, failed, preview, text


@pytest.fixture
def bench() -> Bench:
    return Bench()


def shown(bench: Bench) -> list[str]:
    return [message.text for message in bench.front.messages(7)]


async def test_a_segment_takes_the_place_of_its_previews(bench: Bench):
    for words in ("One.", "One. Two."):
        await bench.deliver(preview(0, words))
        assert shown(bench) == [f"{words} …"]
    await bench.deliver(text(1, "One. Two. Three."), done(1))
    assert shown(bench) == ["One. Two. Three."]


async def test_the_next_message_grows_below(bench: Bench):
    await bench.deliver(preview(0, "a"))
    await bench.deliver(text(1, "one"))
    await bench.deliver(preview(1, "b"))
    assert shown(bench) == ["one", "b …"]
    await bench.deliver(text(2, "two"), done(2))
    assert shown(bench) == ["one", "two"]


async def test_what_something_newer_follows_is_left_out(bench: Bench):
    await bench.deliver(preview(0, "a"), preview(0, "a b"), text(1, "a b c"), done(1))
    assert shown(bench) == ["a b c"]
    assert bench.front.requests == ["send"]


async def test_a_preview_without_its_segment_goes(bench: Bench):
    await bench.deliver(preview(0, "half"))
    await bench.deliver(failed(0))
    (words,) = shown(bench)
    assert words.startswith("It failed.")


async def test_a_preview_is_never_longer_than_a_message(bench: Bench):
    await bench.deliver(preview(0, "x" * 3000))
    (words,) = shown(bench)
    assert (len(words), words[-1]) == (1998, "…")


async def test_a_preview_that_is_refused_is_nobodys_business(bench: Bench):
    bench.front.script = [Refused(refusal=Refusal.CONTENT, status=400, code=50035)]
    await bench.deliver(preview(0, "half"))
    await bench.deliver(text(1, "whole"), done(1))
    assert shown(bench) == ["whole"]
    assert bench.reporter.reports == []


async def test_a_preview_whose_answer_was_lost_becomes_its_segment(bench: Bench):
    bench.front.script = [Unavailable(reason="timeout")]
    await bench.deliver(preview(0, "half"))
    await bench.deliver(text(1, "whole"), done(1))
    assert shown(bench) == ["whole"]


async def test_a_preview_of_segments_that_are_missing_is_not_shown(bench: Bench):
    await bench.deliver(preview(3, "the fourth"))
    assert shown(bench) == []


async def test_previews_among_the_rest_of_a_long_reply_do_not_part_it(bench: Bench):
    bench.max_messages = 3
    grown = [
        one
        for seq in range(1, 7)
        for one in (preview(seq - 1, f"{seq}"), text(seq, f"{seq}.", joint=" "))
    ]
    await bench.deliver(*grown, done(6))
    assert shown(bench)[:2] == ["1.", "2."]
    assert len(shown(bench)) == 3
    (rest,) = bench.front.messages(7)[2].files
    assert rest.data.decode() == "3. 4. 5. 6."


def test_a_preview_is_no_end_of_a_long_reply():
    growing = [text(3, "3."), preview(3, "4"), text(4, "4."), preview(4, "5")]
    assert not has_end(growing)
    assert has_end([*growing, done(4)])
    assert has_end([*growing, preview(0, "1", attempt=2)])


def test_a_preview_that_a_segment_has_overtaken_is_no_step():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "one"), ())
    assert turn.feed(preview(0, "o"), ()) is None
    assert (turn.is_busy, turn.step()) == (False, None)


def test_what_is_closed_or_left_has_nothing_new():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "one"), ())
    turn.feed(text(1, "one", attempt=2), ())
    assert not turn.is_new(text(2, "two"))
    turn.feed(done(1, attempt=2), ())
    assert not turn.is_new(text(2, "two", attempt=2))


def test_without_an_envelope_there_is_no_nonce():
    with pytest.raises(RuntimeError, match="no envelope"):
        _ = TurnSequencer("l1").nonce
