"""The sequencer: what must happen in a channel, step by step."""

import pytest

from gateway.editions import MAX_PAST
from gateway.front import NONCE_CHARS, Refusal, Refused, Sent, Unavailable
from gateway.sequencer import TurnSequencer
from gateway.steps import Erase, Head, JournalRecord, Piece, Post, Rewrite, Slot, Step, nonce_of
from shared.segments import Envelope
from tests.support.envelopes import done, failed, superseded, text

GONE = Refused(refusal=Refusal.GONE, status=404, code=10008)
CONTENT = Refused(refusal=Refusal.CONTENT, status=400, code=50035)


class Driver:
    """Drives a sequencer: message ids count from 1."""

    def __init__(self, record: JournalRecord | None = None) -> None:
        self.turn = TurnSequencer("l1", record)
        self.ids = 0
        self.steps: list[Step] = []

    def show(self, envelope: Envelope, *pieces: str) -> None:
        self.turn.feed(envelope, tuple(Piece(text=words) for words in pieces))
        while (step := self.turn.step()) is not None:
            self.turn.intent(step, 1)
            self.steps.append(step)
            self.ids += isinstance(step, Post)
            self.turn.settle(step, Sent(message_id=self.ids))

    def take(self) -> list[Step]:
        steps, self.steps = self.steps, []
        return steps


def test_segments_are_posted_one_after_another():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(text(2, "b"), "b")
    driver.show(done(2))
    first, second = driver.take()
    assert isinstance(first, Post)
    assert isinstance(second, Post)
    assert (first.slot, first.text, first.previous_id) == (0, "a", None)
    assert (second.slot, second.text, second.previous_id) == (1, "b", 1)
    assert first.nonce != second.nonce
    assert driver.turn.is_closed


def test_the_texts_of_one_segment_have_nonces_of_their_own():
    driver = Driver()
    driver.show(text(1, "ab"), "a", "b")
    nonces = [step.nonce for step in driver.take() if isinstance(step, Post)]
    assert nonces == [nonce_of("l1", 1, "aaaa0001", 1, 0), nonce_of("l1", 1, "aaaa0001", 1, 1)]


@pytest.mark.parametrize(
    "other",
    [
        nonce_of("l2", 1, "c", 1, 0),
        nonce_of("l1", 2, "c", 1, 0),
        nonce_of("l1", 1, "d", 1, 0),
        nonce_of("l1", 1, "c", 2, 0),
        nonce_of("l1", 1, "c", 1, 1),
    ],
    ids=["turn", "attempt", "claim", "seq", "part"],
)
def test_a_nonce_depends_on_everything_that_names_a_message(other):
    mine = nonce_of("l1", 1, "c", 1, 0)
    assert mine != other
    assert len(mine) == 24 < NONCE_CHARS


def test_a_repeated_segment_is_not_shown_again():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    assert driver.turn.feed(text(1, "a"), (Piece(text="a"),)) is None
    assert not driver.turn.is_busy


def test_a_superseding_attempt_rewrites_in_place_and_erases_what_is_left():
    driver = Driver()
    for seq, words in enumerate("abc", start=1):
        driver.show(text(seq, words), words)
    driver.take()
    driver.show(superseded(2))
    assert driver.take() == []
    driver.show(text(1, "x", attempt=2), "x")
    assert driver.take() == [Rewrite(slot=0, message_id=1, text="x")]
    driver.show(done(1, attempt=2))
    assert driver.take() == [Erase(slot=2, message_id=3), Erase(slot=1, message_id=2)]
    assert driver.turn.is_closed
    assert driver.turn.shown == 1


def test_a_longer_second_attempt_rewrites_and_goes_on():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(superseded(2))
    driver.take()
    driver.show(text(1, "x", attempt=2), "x")
    driver.show(text(2, "y", attempt=2), "y")
    driver.show(done(2, attempt=2))
    first, second = driver.take()
    assert first == Rewrite(slot=0, message_id=1, text="x")
    assert isinstance(second, Post)
    assert second.previous_id == 1


def test_segments_of_a_void_attempt_are_ignored():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(superseded(2))
    driver.take()
    driver.show(text(2, "late"), "late")
    driver.show(done(2))
    assert driver.take() == []
    assert not driver.turn.is_closed


def test_a_repeated_supersede_voids_nothing_of_its_own_attempt():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(superseded(2))
    driver.show(text(1, "x", attempt=2), "x")
    driver.take()
    assert driver.turn.feed(superseded(2), ()) is None
    driver.show(text(2, "y", attempt=2), "y")
    assert [type(step) for step in driver.take()] == [Post]


@pytest.mark.parametrize("attempt", [2, 3], ids=["a lower number", "the same number"])
def test_a_number_that_a_forgetful_server_gives_again_is_another_edition(attempt):
    """It forgot attempts 2 and 3, and counts on from 1; the claim tells them apart."""
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(superseded(3))
    driver.show(text(1, "b", attempt=3), "b")
    driver.take()
    driver.show(superseded(attempt, claim="cccc0003"))
    driver.show(text(1, "c", attempt=attempt, claim="cccc0003"), "c")
    driver.show(text(1, "b", attempt=3), "b")  # comes once more, and is void
    driver.show(done(1, attempt=attempt, claim="cccc0003"))
    assert driver.take() == [Rewrite(slot=0, message_id=1, text="c")]
    assert driver.turn.is_closed


def test_no_text_outlives_its_delivery():
    driver = Driver()
    driver.show(text(1, "a"), "private")
    assert "private" not in _everything(driver.turn)
    driver.show(done(1), "a private notice")
    assert "private" not in _everything(driver.turn)
    other = TurnSequencer("l2")
    other.feed(text(1, "private", turn="l2"), (Piece(text="private"),))
    other.abandon()
    assert "private" not in _everything(other)


def _everything(turn: TurnSequencer) -> str:
    return repr(vars(turn))


def test_the_memory_of_editions_has_a_bound():
    driver = Driver()
    for number in range(1, 2 * MAX_PAST):
        driver.show(text(1, "a", attempt=number), "a")
    patch = driver.turn.whole()
    assert len(patch.head.past) == MAX_PAST
    assert patch.before is None
    assert [slot for slot, _ in patch.put] == [0]


def test_a_first_segment_of_a_later_attempt_supersedes_by_itself():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    driver.show(text(1, "x", attempt=2, claim="bbbb0002"), "x")
    assert driver.take() == [Rewrite(slot=0, message_id=1, text="x")]


def test_another_claim_of_the_same_attempt_starts_over():
    """A fail-over of the server may forget an attempt number; the claim tells them apart."""
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    driver.show(text(1, "x", claim="bbbb0002"), "x")
    assert driver.take() == [Rewrite(slot=0, message_id=1, text="x")]


def test_a_later_attempt_that_goes_on_counting_keeps_what_is_shown():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    driver.show(text(2, "b", attempt=2, claim="bbbb0002"), "b")
    assert [type(step) for step in driver.take()] == [Post]
    assert not driver.turn.has_gap


def test_a_failure_keeps_the_shown_text_and_adds_a_notice():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    driver.show(failed(1, attempt=2), "It failed.")
    (step,) = driver.take()
    assert isinstance(step, Post)
    assert step.text == "It failed."
    assert driver.turn.is_closed


def test_a_notice_takes_the_place_of_a_void_message():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(text(2, "b"), "b")
    driver.show(superseded(2))
    driver.take()
    driver.show(failed(0, attempt=2), "It failed.")
    assert driver.take() == [
        Rewrite(slot=0, message_id=1, text="It failed."),
        Erase(slot=1, message_id=2),
    ]


def test_a_second_terminal_event_is_a_repetition():
    driver = Driver()
    driver.show(done(0), "empty")
    driver.take()
    driver.show(failed(0), "It failed.")
    assert driver.take() == []


def test_a_terminal_event_is_shown_whatever_its_number():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.take()
    driver.show(failed(0), "It failed.")
    (step,) = driver.take()
    assert isinstance(step, Post)
    assert step.nonce == nonce_of("l1", 1, "aaaa0001", -1, 0)


@pytest.mark.parametrize(
    ("envelope", "pieces", "has_gap"),
    [(text(1, "a"), ("a",), False), (text(3, "c"), ("c",), True), (done(2), ("x",), True)],
    ids=["next", "skipped", "count"],
)
def test_a_gap_is_seen_and_shown_all_the_same(envelope, pieces, has_gap):
    driver = Driver()
    driver.turn.feed(envelope, pieces)
    assert driver.turn.has_gap is has_gap
    assert driver.turn.is_busy


def test_an_envelope_must_be_finished_before_the_next():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "a"), (Piece(text="a"),))
    with pytest.raises(RuntimeError, match="not finished"):
        turn.feed(text(2, "b"), (Piece(text="b"),))


def test_an_outage_changes_nothing():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "a"), (Piece(text="a"),))
    step = turn.step()
    assert step is not None
    turn.intent(step, 1)
    assert turn.settle(step, Unavailable(reason="timeout")) is None
    again = turn.step()
    assert isinstance(again, Post)
    assert again.since_ms == 1
    assert turn.intent(again, 2) is None


def test_a_segment_without_texts_is_passed():
    driver = Driver()
    patch = driver.turn.feed(text(1, " "), ())
    assert patch is not None
    assert patch.head.seq == 1
    assert not driver.turn.is_busy


@pytest.mark.parametrize("refused", [GONE, CONTENT], ids=["deleted meanwhile", "not accepted"])
def test_a_refused_post_leaves_no_slot(refused):
    turn = TurnSequencer("l1")
    turn.feed(text(1, "a"), (Piece(text="a"),))
    step = turn.step()
    assert step is not None
    turn.intent(step, 1)
    patch = turn.settle(step, refused)
    assert patch is not None
    assert patch.drop == (0,)
    assert patch.head.seq == 1
    assert turn.shown == 0
    assert turn.step() is None


def test_a_message_that_is_gone_takes_its_followers_with_it_and_is_posted_anew():
    """A new message would stand below the old followers: the order of the reply comes first."""
    driver = Driver()
    for seq, words in enumerate("ab", start=1):
        driver.show(text(seq, words), words)
    driver.show(superseded(2))
    driver.take()
    turn = driver.turn
    turn.feed(text(1, "x", attempt=2), (Piece(text="x"),))
    rewrite = turn.step()
    assert isinstance(rewrite, Rewrite)
    turn.settle(rewrite, GONE)
    assert turn.step() == Erase(slot=1, message_id=2)
    for _ in range(2):
        erase = turn.step()
        assert isinstance(erase, Erase)
        turn.settle(erase, GONE)
    post = turn.step()
    assert isinstance(post, Post)
    assert (post.slot, post.text) == (0, "x")


def test_a_rewrite_that_is_not_accepted_leaves_its_place_to_the_next_text():
    driver = Driver()
    driver.show(text(1, "a"), "a")
    driver.show(superseded(2))
    driver.take()
    turn = driver.turn
    turn.feed(text(1, "bad", attempt=2), (Piece(text="bad"),))
    rewrite = turn.step()
    assert isinstance(rewrite, Rewrite)
    turn.settle(rewrite, CONTENT)
    turn.feed(text(2, "good", attempt=2), (Piece(text="good"),))
    assert turn.step() == Rewrite(slot=0, message_id=1, text="good")


def test_an_abandoned_turn_is_closed():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "a"), (Piece(text="a"),))
    assert turn.abandon().head.closed
    assert not turn.is_busy
    assert turn.feed(done(1), ()) is None


def slot(number: int, message_id: int | None = None, nonce: str = "old") -> Slot:
    return Slot(nonce=nonce, at_ms=number, message_id=message_id)


def test_a_post_whose_receipt_is_missing_is_asked_for_again_with_the_same_nonce():
    nonce = nonce_of("l1", 1, "aaaa0001", 1, 0)
    record = JournalRecord(head=Head(attempt=1, claim="aaaa0001"), slots=(slot(5, nonce=nonce),))
    turn = TurnSequencer("l1", record)
    turn.feed(text(1, "a"), (Piece(text="a"),))
    step = turn.step()
    assert step == Post(slot=0, nonce=nonce, text="a", since_ms=5)


def test_the_parts_of_a_segment_that_were_shown_are_not_shown_again():
    record = JournalRecord(
        head=Head(attempt=1, claim="aaaa0001", parts=1, cursor=1), slots=(slot(0, 1),)
    )
    turn = TurnSequencer("l1", record)
    turn.feed(text(1, "ab"), (Piece(text="a"), Piece(text="b")))
    step = turn.step()
    assert isinstance(step, Post)
    assert (step.slot, step.text, step.previous_id) == (1, "b", 1)


def test_a_lost_slot_in_the_middle_is_cleared_behind_before_it_is_filled():
    record = JournalRecord(head=Head(attempt=2, claim="aaaa0001"), slots=(slot(0), slot(1, 2)))
    driver = Driver(record)
    driver.show(text(1, "x", attempt=2), "x")
    first, second = driver.take()
    assert first == Erase(slot=1, message_id=2)
    assert isinstance(second, Post)
    assert second.slot == 0


def test_a_left_over_without_receipt_is_dropped_at_the_end():
    record = JournalRecord(
        head=Head(attempt=2, claim="aaaa0001", seq=1, cursor=1), slots=(slot(0, 1), slot(1))
    )
    driver = Driver(record)
    driver.show(done(1, attempt=2))
    assert driver.take() == [Erase(slot=1, message_id=None)]
