"""What must happen in a channel so that it shows exactly one whole reply.

Comes in: a turn's envelopes, as texts, and the outcome of each step. Goes out: the next step (post,
rewrite, erase) and what the journal must remember. Pure: it knows no clock, no wire and no front.
`gateway.delivery` drives it.

A turn's reply is a row of *slots*: messages in the order of the channel. An attempt writes them
from the first to the last. An attempt that supersedes another starts again at the first slot and
rewrites in place; what lies behind its last text is erased when the turn ends. The record of a turn
holds all of this, so that a gateway that was killed goes on where the last one stopped:

| killed                        | the record says           | what follows                       |
|-------------------------------|---------------------------|------------------------------------|
| before the intent is written  | nothing of this text      | the post, as if for the first time |
| after the intent              | slot without a message id | the same post, with the same nonce |
| after the receipt, before ack | the text as shown         | nothing: the envelope is acked     |
| in an edit or a deletion      | the cursor before it      | the same edit or deletion again    |
"""

from base64 import b32encode
from enum import StrEnum
from hashlib import blake2b
from typing import assert_never

import msgspec

from gateway.front import Outcome, Refusal, Refused, Sent, Unavailable
from shared.segments import AttemptSuperseded, Envelope, SegmentReady, TurnDone, TurnFailed

NONCE_HASH_BYTES = 15
"""120 bits are 24 characters of base32, and Discord takes 25."""


MAX_PAST = 32
"""Editions remembered: more than a turn has attempts, deploys that hand it back included."""
TERMINAL_SEQ = -1
"""The seq of a terminal event's texts in nonces: no segment has it."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the reply. Without `message_id` it is being sent since `at_ms`."""

    nonce: str
    at_ms: int
    message_id: int | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn's delivery stands.

    `seq` is the last envelope that was shown whole, `parts` how many texts of the next one were;
    `cursor` is the slot that the next text goes to. `closed`: the terminal event was shown. `past`
    are the editions (attempt and claim) that were left for this one: what comes of them is void.
    Numbers alone would not tell: a server that forgot its last second counts attempts once more.
    """

    attempt: int = 0
    claim: str = ""
    seq: int = 0
    parts: int = 0
    cursor: int = 0
    closed: bool = False
    past: tuple[str, ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a turn, as it was read."""

    head: Head = msgspec.field(default_factory=Head)
    slots: tuple[Slot, ...] = ()


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal must change, in one write. `drop` is the number of a slot that is gone.

    `before` is the head that the journal has, unless its server forgot; None puts this in the place
    of whatever is there.
    """

    head: Head
    before: Head | None
    put: tuple[tuple[int, Slot], ...] = ()
    drop: tuple[int, ...] = ()


class Written(StrEnum):
    """What became of a patch."""

    DONE = "done"
    FENCED = "fenced"
    """The lease has passed to another gateway."""
    FORGOTTEN = "forgotten"
    """The journal is not as it was left: its server forgot, and wants the whole."""


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Send a new message. `since_ms` is set when an earlier send of it may have arrived."""

    slot: int
    nonce: str
    text: str
    since_ms: int | None = None
    previous_id: int | None = None
    """The message before it in this reply: history after it is where a lost one would be."""


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the text of a message that a void attempt left."""

    slot: int
    message_id: int
    text: str


class Erase(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a message that a void attempt left over; None: a send that never got its receipt."""

    slot: int
    message_id: int | None


Step = Post | Rewrite | Erase


def nonce_of(turn_id: str, attempt: int, claim: str, seq: int, part: int) -> str:
    """The nonce of one message: the same for every try, another for every other message.

    >>> nonce_of("m1", 1, "0a1b2c3d", 1, 0) == nonce_of("m1", 1, "0a1b2c3d", 1, 0)
    True
    >>> len(nonce_of("m1", 1, "0a1b2c3d", 1, 0))
    24
    """
    name = f"{turn_id}|{attempt}|{claim}|{seq}|{part}".encode()
    return b32encode(blake2b(name, digest_size=NONCE_HASH_BYTES).digest()).decode().lower()


def _edition(attempt: int, claim: str) -> str:
    return f"{attempt}/{claim}"


class TurnSequencer:
    """The state of one turn's delivery.

    `feed` takes an envelope; then, until `step` answers None, the driver journals `intent`, acts,
    and journals what `settle` returns.

    Args:
        turn_id: the turn.
        record: what the journal has, None for a turn never seen.
    """

    def __init__(self, turn_id: str, record: JournalRecord | None = None) -> None:
        record = record or JournalRecord()
        self._turn_id = turn_id
        self._head = record.head
        self._slots = list(record.slots)
        self._journaled = record.head
        self._pieces: tuple[str, ...] = ()
        self._goal: Envelope | None = None
        self._repost = False  # a slot could not be rewritten: what follows it must go first
        self.has_gap = False

    @property
    def is_closed(self) -> bool:
        """The terminal event was shown; whatever comes now is a repetition."""
        return self._head.closed

    @property
    def is_busy(self) -> bool:
        """An envelope is being worked on."""
        return self._goal is not None

    @property
    def shown(self) -> int:
        """How many messages the reply has at this moment, void ones included."""
        return len(self._slots)

    def feed(self, envelope: Envelope, pieces: tuple[str, ...]) -> Patch | None:
        """Begins an envelope, as the texts it is shown by.

        Returns:
            What to journal at once, None if nothing changed (also for repetitions and for
            envelopes of a void attempt: `is_busy` is False then, and the envelope may be acked).

        Raises:
            RuntimeError: the last envelope is not finished.
        """
        if self._goal is not None:
            raise RuntimeError("the last envelope is not finished")
        self.has_gap = False
        before = self._head
        edition = _edition(envelope.attempt, envelope.claim)
        if not before.closed and edition not in before.past:
            match envelope.event:
                case AttemptSuperseded():
                    if edition != _edition(before.attempt, before.claim):
                        self._restart(envelope)
                case SegmentReady():
                    self._begin_segment(envelope, pieces)
                case TurnDone() | TurnFailed():
                    self._begin_terminal(envelope, pieces, envelope.event.count)
                case _:
                    assert_never(envelope.event)
        return None if self._head == before else self._patch()

    def step(self) -> Step | None:
        """The next thing to do in the channel; None when the envelope is finished."""
        goal = self._goal
        if goal is None:
            return None
        head = self._head
        slot = self._slots[head.cursor] if head.cursor < len(self._slots) else None
        if head.parts == len(self._pieces) or (slot is not None and self._must_clear(slot)):
            return Erase(slot=len(self._slots) - 1, message_id=self._slots[-1].message_id)
        seq = goal.seq if isinstance(goal.event, SegmentReady) else TERMINAL_SEQ
        nonce = nonce_of(self._turn_id, goal.attempt, goal.claim, seq, head.parts)
        text = self._pieces[head.parts]
        if slot is not None and slot.message_id is not None:
            return Rewrite(slot=head.cursor, message_id=slot.message_id, text=text)
        previous = self._slots[head.cursor - 1].message_id if head.cursor else None
        since = slot.at_ms if slot is not None and slot.nonce == nonce else None
        return Post(slot=head.cursor, nonce=nonce, text=text, since_ms=since, previous_id=previous)

    def intent(self, step: Step, now_ms: int) -> Patch | None:
        """What to journal before acting: a post must not be forgotten, the rest repeats itself."""
        if not isinstance(step, Post) or step.since_ms is not None:
            return None
        slot = Slot(nonce=step.nonce, at_ms=now_ms)
        self._slots[step.slot : step.slot + 1] = [slot]
        return self._patch(put=((step.slot, slot),))

    def settle(self, step: Step, outcome: Outcome) -> Patch | None:
        """Takes the outcome of a step.

        Returns:
            What to journal, None when the step must be tried again.
        """
        if isinstance(outcome, Unavailable):
            return None
        match step:
            case Post():
                return self._settle_post(step, outcome)
            case Rewrite():
                return self._settle_rewrite(step, outcome)
            case Erase():
                return self._drop_last()
            case _:
                assert_never(step)

    def abandon(self) -> Patch:
        """Gives the turn up: nothing more is shown, and every further envelope is a repetition."""
        self._drop_goal()
        self._head = msgspec.structs.replace(self._head, closed=True)
        return self._patch()

    def whole(self) -> Patch:
        """All that the journal must have, for one that forgot."""
        return Patch(head=self._head, before=None, put=tuple(enumerate(self._slots)))

    def _patch(
        self, *, put: tuple[tuple[int, Slot], ...] = (), drop: tuple[int, ...] = ()
    ) -> Patch:
        before, self._journaled = self._journaled, self._head
        return Patch(head=self._head, before=before, put=put, drop=drop)

    def _restart(self, envelope: Envelope) -> None:
        self._head = Head(attempt=envelope.attempt, claim=envelope.claim, past=self._past(envelope))

    def _past(self, envelope: Envelope) -> tuple[str, ...]:
        head = self._head
        edition = _edition(head.attempt, head.claim)
        if head.attempt == 0 or edition == _edition(envelope.attempt, envelope.claim):
            return head.past
        return (*head.past, edition)[-MAX_PAST:]

    def _begin_segment(self, envelope: Envelope, pieces: tuple[str, ...]) -> None:
        head = self._head
        is_other_edition = (envelope.attempt, envelope.claim) != (head.attempt, head.claim)
        if is_other_edition and envelope.seq == 1:
            self._restart(envelope)
        elif is_other_edition:
            self._adopt(envelope)
        if envelope.seq > self._head.seq:
            self.has_gap = envelope.seq > self._head.seq + 1
            self._begin(envelope, pieces)

    def _begin_terminal(self, envelope: Envelope, pieces: tuple[str, ...], count: int) -> None:
        # A worker that dies after a tool ran leaves its text: the terminal event of a later
        # attempt ends what is shown, only `AttemptSuperseded` and a first segment make it void.
        self._adopt(envelope)
        self.has_gap = count > self._head.seq
        self._begin(envelope, pieces)

    def _adopt(self, envelope: Envelope) -> None:
        self._head = msgspec.structs.replace(
            self._head,
            attempt=envelope.attempt,
            claim=envelope.claim,
            past=self._past(envelope),
        )

    def _begin(self, envelope: Envelope, pieces: tuple[str, ...]) -> None:
        self._goal = envelope
        self._pieces = pieces
        self._repost = False
        self._finish_if_done()

    def _settle_post(self, step: Post, outcome: Sent | Refused) -> Patch:
        if isinstance(outcome, Sent):
            slot = Slot(
                nonce=step.nonce,
                at_ms=self._slots[step.slot].at_ms,
                message_id=outcome.message_id,
            )
            self._slots[step.slot] = slot
            self._advance(cursor=step.slot + 1)
            return self._patch(put=((step.slot, slot),))
        # Refused for good: this text has no message (deleted by a moderator, or not accepted).
        del self._slots[step.slot]
        self._advance(cursor=step.slot)
        return self._patch(drop=(step.slot,))

    def _settle_rewrite(self, step: Rewrite, outcome: Sent | Refused) -> Patch | None:
        if isinstance(outcome, Sent):
            self._advance(cursor=step.slot + 1)
            return self._patch()
        if outcome.refusal is Refusal.CONTENT:
            # The text is refused, its place is not: the next text takes it.
            self._advance(cursor=step.slot)
            return self._patch()
        # Gone or frozen: a new message would stand below its followers, so they go first.
        self._repost = True
        return self._patch()

    def _must_clear(self, slot: Slot) -> bool:
        """A post at this slot would stand below the slots behind it: they go first."""
        return self._repost or (
            slot.message_id is None and self._head.cursor < len(self._slots) - 1
        )

    def _drop_last(self) -> Patch:
        self._slots.pop()
        self._finish_if_done()
        return self._patch(drop=(len(self._slots),))

    def _advance(self, *, cursor: int) -> None:
        self._head = msgspec.structs.replace(self._head, cursor=cursor, parts=self._head.parts + 1)
        self._finish_if_done()

    def _drop_goal(self) -> None:
        self._goal, self._pieces = None, ()  # no text outlives its delivery in memory

    def _finish_if_done(self) -> None:
        goal = self._goal
        if goal is None or self._head.parts < len(self._pieces):
            return
        is_terminal = not isinstance(goal.event, SegmentReady)
        if is_terminal and self._head.cursor < len(self._slots):
            return
        seq = self._head.seq if is_terminal else goal.seq
        self._head = msgspec.structs.replace(self._head, seq=seq, parts=0, closed=is_terminal)
        self._drop_goal()
