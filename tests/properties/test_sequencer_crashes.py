"""Whatever is killed whenever: the channel ends with the last attempt, whole, in order, once."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gateway.front import Outcome, Refusal, Refused, Sent
from gateway.sequencer import TurnSequencer
from gateway.steps import Erase, Head, JournalRecord, Patch, Piece, Post, Rewrite, Slot, Step
from shared.segments import Envelope, SegmentPreview, SegmentReady, TurnFailed
from tests.support.envelopes import done, failed, preview, superseded, text

PREVIEW = "..."
"""Something is seen of the next segment, which may never come."""


class Killed(Exception):
    """The process is gone at this moment."""


class World:
    """What outlives a gateway: the channel, the nonces, the journal, the stream."""

    def __init__(self, kills: Iterator[bool]) -> None:
        self._kills = kills
        self.texts: dict[int, str] = {}
        self.nonces: dict[str, int] = {}
        self.head = Head()
        self.slots: dict[int, Slot] = {}
        self.posts = 0

    def may_die(self) -> None:
        if next(self._kills, False):
            raise Killed

    def record(self) -> JournalRecord:
        return JournalRecord(
            head=self.head, slots=tuple(self.slots[key] for key in sorted(self.slots))
        )

    def write(self, patch: Patch | None) -> None:
        self.may_die()
        if patch is not None:
            self.head = patch.head
            self.slots.update(dict(patch.put))
            for number in patch.drop:
                del self.slots[number]
        self.may_die()

    def act(self, step: Step) -> Outcome:
        outcome = self._act(step)
        self.may_die()
        return outcome

    def _act(self, step: Step) -> Outcome:
        match step:
            case Post():
                if step.nonce not in self.nonces:
                    self.posts += 1
                    self.nonces[step.nonce] = self.posts
                    self.texts[self.posts] = step.text
                message_id = self.nonces[step.nonce]
                is_there = message_id in self.texts
                return Sent(message_id=message_id) if is_there else Refused(refusal=Refusal.GONE)
            case Rewrite():
                self.texts[step.message_id] = step.text
                return Sent(message_id=step.message_id)
            case Erase():
                self.texts.pop(step.message_id or 0, None)
                return Sent(message_id=0)


def texts_of(envelope: Envelope) -> tuple[str, ...]:
    match envelope.event:
        case SegmentReady(segment=segment):
            return tuple(segment.text.split("|"))
        case SegmentPreview(text=words):
            return (words,)
        case TurnFailed(headline=headline):
            return (headline,)
        case _:
            return ()


def pieces_of(envelope: Envelope) -> tuple[Piece, ...]:
    return tuple(Piece(text=words) for words in texts_of(envelope))


def run(world: World, stream: list[Envelope]) -> None:
    """One life of a gateway: it reads what is unacknowledged and dies or ends."""
    turn = TurnSequencer("l1", world.record())
    while stream:
        envelope = stream[0]
        patch = turn.feed(envelope, pieces_of(envelope))
        if patch is not None:
            world.write(patch)
        while (step := turn.step()) is not None:
            world.write(turn.intent(step, 1))
            world.write(turn.settle(step, world.act(step)))
        world.may_die()
        stream.pop(0)


attempts = st.lists(
    st.lists(st.sampled_from(["one", "two|2", "three|3|III", PREVIEW]), min_size=0, max_size=6),
    min_size=1,
    max_size=3,
)


@given(
    attempts=attempts,
    fails=st.booleans(),
    kills=st.lists(st.sampled_from([False, False, False, True]), max_size=80),
    announced=st.booleans(),
)
def test_the_channel_ends_with_exactly_the_last_attempt(attempts, fails, kills, announced):
    stream: list[Envelope] = []
    has_text = False
    seq = 0
    for number, segments in enumerate(attempts, start=1):
        if number > 1 and has_text and (announced or not segments):
            stream.append(superseded(number))
        seq = 0
        for place, words in enumerate(segments):
            has_text = True
            if words == PREVIEW:
                stream.append(preview(seq, f"{number}.{place} {words}", attempt=number))
                continue
            seq += 1
            marked = "|".join(f"{number}.{seq} {part}" for part in words.split("|"))
            stream.append(text(seq, marked, attempt=number))
    last = len(attempts)
    expected = [
        part
        for envelope in stream
        if envelope.attempt == last and isinstance(envelope.event, SegmentReady)
        for part in texts_of(envelope)
    ]
    ending = failed if fails else done
    stream.append(ending(seq, attempt=last))
    expected += texts_of(stream[-1])
    world = World(iter(kills))
    lives = 0
    while stream:
        lives += 1
        try:
            run(world, stream)
        except Killed:
            continue
    assert [world.texts[key] for key in sorted(world.texts)] == expected
    assert lives <= len(kills) + 1
    assert world.head.closed
