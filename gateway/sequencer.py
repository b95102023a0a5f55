"""What must happen in a channel so that it shows exactly one whole reply.

Comes in: a turn's envelopes, as pieces, and the outcome of each step. Goes out: the next step
(post, rewrite, erase) and what the journal must remember. Pure: it knows no clock, no wire and no
front. `gateway.delivery` drives it.

Several envelopes may be shown as one: a *run*, up to the number `Head.upto`. And a piece that
cannot be shown as it is may be put otherwise (a drawn table as text): `Head.again` has the places.
Both are in the journal before anything of them is sent, so that whoever comes next does the same.
So is the button that stops the turn (`Slot.has_stop`): while a reply may go on, its first message
without buttons of its own carries it.

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

from typing import assert_never

import msgspec

from gateway.editions import adopted, is_of, is_past, nonce_for, numbered, restarted
from gateway.front import Outcome, Refusal, Refused, Sent, Unavailable
from gateway.steps import (
    Erase,
    JournalRecord,
    Patch,
    Piece,
    Plan,
    Post,
    Rewrite,
    Slot,
    Step,
)
from shared.segments import (
    AttemptSuperseded,
    Envelope,
    SegmentPreview,
    SegmentReady,
    TurnDone,
    TurnFailed,
)


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
        self._pieces: tuple[Piece, ...] = ()
        self._goal: Envelope | None = None
        self._repost = False  # a slot could not be rewritten: what follows it must go first
        self._is_partial = False  # of a run that an earlier life began, most is missing
        self._may_go_on = False  # the reply may get more messages after this envelope
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

    @property
    def written(self) -> int:
        """How many messages this attempt has written so far."""
        return self._head.cursor

    def is_new(self, envelope: Envelope) -> bool:
        """Whether something of a segment is still to be shown."""
        head = self._head
        if head.closed or is_past(head, envelope):
            return False
        return not is_of(head, envelope) or envelope.seq > head.seq

    def is_pending(self, envelope: Envelope) -> bool:
        """Whether a preview was begun, so that its message may have arrived without a receipt."""
        slot = self._slot
        nonce = nonce_for(self._turn_id, envelope, 0)
        return slot is not None and slot.message_id is None and slot.nonce == nonce

    def plan(self, envelope: Envelope) -> Plan | None:
        """How an earlier life began to show an envelope; None for one that nobody began."""
        head, slot = self._head, self._slot
        # An end is shown whatever is missing before it.
        is_next = envelope.seq == head.seq + 1 or isinstance(envelope.event, TurnDone | TurnFailed)
        if not is_of(head, envelope) or not is_next:
            return None
        nonce = nonce_for(self._turn_id, envelope, head.parts)
        is_sent = slot is not None and slot.nonce == nonce
        is_begun = is_sent or head.parts or head.upto or head.again
        return Plan(upto=head.upto, again=head.again) if is_begun else None

    @property
    def piece(self) -> Piece | None:
        """What the next post or rewrite shows; None when there is none to come."""
        is_there = self._goal is not None and self._head.parts < len(self._pieces)
        return self._pieces[self._head.parts] if is_there else None

    @property
    def nonce(self) -> str:
        """The nonce of `piece`."""
        if self._goal is None:
            raise RuntimeError("no envelope is being shown")
        return nonce_for(self._turn_id, self._goal, self._head.parts)

    def fill(self, piece: Piece) -> None:
        """Puts a piece that is ready in the place of `piece`, which was not."""
        self._replace((piece,))

    def otherwise(self, pieces: tuple[Piece, ...]) -> Patch:
        """Puts other pieces in the place of `piece`, which cannot be shown as it is."""
        self._replace(pieces)
        head = self._head
        self._head = msgspec.structs.replace(head, again=(*head.again, head.parts))
        return self._patch()

    def _replace(self, pieces: tuple[Piece, ...]) -> None:
        at = self._head.parts
        self._pieces = (*self._pieces[:at], *pieces, *self._pieces[at + 1 :])

    def feed(
        self,
        envelope: Envelope,
        pieces: tuple[Piece, ...],
        *,
        upto: int = 0,
        is_partial: bool = False,
        may_go_on: bool = False,
    ) -> Patch | None:
        """Begins an envelope, or a run of them up to the number `upto`, as what it is shown by.

        Args:
            envelope: the (first) envelope.
            pieces: what shows it, with all that follows it in the run.
            upto: the last number of the run, 0 for one envelope alone.
            is_partial: the run was begun in an earlier life, and only its first envelope is here:
                if its message was sent then, the run is shown, otherwise this envelope alone.
            may_go_on: the end of the reply is not known, so that there is something to stop.

        Returns:
            What to journal at once, None if nothing changed (also for repetitions and for
            envelopes of a void attempt: `is_busy` is False then, and the envelope may be acked).

        Raises:
            RuntimeError: the last envelope is not finished.
        """
        if self._goal is not None:
            raise RuntimeError("the last envelope is not finished")
        self.has_gap, self._is_partial, self._may_go_on = False, is_partial, may_go_on
        before = self._head
        if not before.closed and not is_past(before, envelope):
            match envelope.event:
                case AttemptSuperseded():
                    if not is_of(before, envelope):
                        self._head = restarted(before, envelope)
                case SegmentReady():
                    self._begin_segment(envelope, pieces, upto)
                case SegmentPreview():
                    self._begin_preview(envelope, pieces)
                case TurnDone() | TurnFailed():
                    self._begin_terminal(envelope, pieces, envelope.event.count)
                case _:
                    assert_never(envelope.event)
        return None if self._head == before else self._patch()

    def postpone(self, patch: Patch) -> bool:
        """Whether what `feed` changed can be journaled with the intent that follows it at once.

        It can where the next step is a post that nobody began: nothing is done before its intent.
        """
        step = self.step()
        if not isinstance(step, Post) or step.since_ms is not None or patch.before is None:
            return False
        self._journaled = patch.before
        return True

    def step(self) -> Step | None:
        """The next thing to do in the channel; None when the envelope is finished."""
        goal = self._goal
        if goal is None:
            return None
        head, slot = self._head, self._slot
        if head.parts == len(self._pieces) or (slot is not None and self._must_clear(slot)):
            return Erase(slot=len(self._slots) - 1, message_id=self._slots[-1].message_id)
        nonce, piece = self.nonce, self._pieces[head.parts]
        if slot is not None and slot.message_id is not None:
            return Rewrite(
                slot=head.cursor,
                message_id=slot.message_id,
                text=piece.text,
                files=piece.files,
                buttons=piece.buttons,
                has_stop=self._can_stop(piece),
            )
        begun = slot if slot is not None and slot.nonce == nonce else None
        return Post(
            slot=head.cursor,
            nonce=nonce,
            text=piece.text,
            files=piece.files,
            buttons=piece.buttons,
            has_stop=self._can_stop(piece) if begun is None else begun.has_stop,
            since_ms=None if begun is None else begun.at_ms,
            after_id=None if begun is None else begun.after_id,
            previous_id=self._slots[head.cursor - 1].message_id if head.cursor else None,
        )

    def intent(self, step: Step, now_ms: int) -> Patch | None:
        """What to journal before acting: a post must not be forgotten, the rest repeats itself."""
        if not isinstance(step, Post) or step.since_ms is not None:
            return None
        slot = Slot(nonce=step.nonce, at_ms=now_ms, has_stop=step.has_stop, after_id=step.after_id)
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
        slots = tuple(enumerate(self._slots))
        return Patch(head=self._head, before=None, put=slots, armed=self._armed)

    @property
    def _slot(self) -> Slot | None:
        """The message that the next text goes to, where there is one."""
        cursor = self._head.cursor
        return self._slots[cursor] if cursor < len(self._slots) else None

    def _patch(
        self, *, put: tuple[tuple[int, Slot], ...] = (), drop: tuple[int, ...] = ()
    ) -> Patch:
        self._head = numbered(self._head, self._journaled)
        before, self._journaled = self._journaled, self._head
        armed = () if before.closed else self._armed
        return Patch(head=self._head, before=before, put=put, drop=drop, armed=armed)

    @property
    def _armed(self) -> tuple[int, ...]:
        """The messages of an ended reply that were left with their button to stop it."""
        if not self._head.closed:
            return ()
        return tuple(slot.message_id for slot in self._slots if slot.has_stop and slot.message_id)

    def _can_stop(self, piece: Piece) -> bool:
        """Whether the next message carries the button that stops the turn."""
        is_end = self._goal is None or isinstance(self._goal.event, TurnDone | TurnFailed)
        if is_end or piece.buttons or not self._may_go_on:
            return False
        return not any(slot.has_stop for slot in self._slots[: self._head.cursor])

    def _begin_segment(self, envelope: Envelope, pieces: tuple[Piece, ...], upto: int) -> None:
        head = self._head
        is_new_edition = not is_of(head, envelope) and envelope.seq == 1
        self._head = restarted(head, envelope) if is_new_edition else adopted(head, envelope)
        if envelope.seq > self._head.seq:
            self.has_gap = envelope.seq > self._head.seq + 1
            self._head = msgspec.structs.replace(self._head, upto=upto)
            self._begin(envelope, pieces)

    def _begin_preview(self, envelope: Envelope, pieces: tuple[Piece, ...]) -> None:
        """Shows it where the next segment will stand: the cursor stays before it."""
        head = self._head
        if not is_of(head, envelope):
            if envelope.seq:
                return  # of an attempt whose segments are missing: whatever comes next knows more
            self._head = restarted(head, envelope)
        elif envelope.seq != head.seq or head.parts or head.upto:
            return
        self._begin(envelope, pieces)

    def _begin_terminal(self, envelope: Envelope, pieces: tuple[Piece, ...], count: int) -> None:
        # A worker that dies after a tool ran leaves its text: the terminal event of a later
        # attempt ends what is shown, only `AttemptSuperseded` and a first segment make it void.
        self._head = adopted(self._head, envelope)
        self.has_gap = count > self._head.seq
        self._begin(envelope, pieces)

    def _begin(self, envelope: Envelope, pieces: tuple[Piece, ...]) -> None:
        self._goal = envelope
        self._pieces = pieces
        self._repost = False
        self._finish_if_done()

    def _settle_post(self, step: Post, outcome: Sent | Refused) -> Patch:
        if isinstance(outcome, Sent):
            sending = self._slots[step.slot]
            slot = msgspec.structs.replace(sending, message_id=outcome.message_id)
            self._slots[step.slot] = slot
            self._leave_run(is_shown=outcome.deduplicated)
            self._advance(cursor=step.slot + 1)
            return self._patch(put=((step.slot, slot),))
        # Refused for good: this text has no message (deleted by a moderator, or not accepted).
        del self._slots[step.slot]
        self._advance(cursor=step.slot)
        return self._patch(drop=(step.slot,))

    def _settle_rewrite(self, step: Rewrite, outcome: Sent | Refused) -> Patch | None:
        if isinstance(outcome, Sent):
            self._leave_run(is_shown=False)
            old = self._slots[step.slot]
            slot = msgspec.structs.replace(old, has_stop=step.has_stop)
            self._slots[step.slot] = slot
            self._advance(cursor=step.slot + 1)
            return self._patch(put=((step.slot, slot),) if slot != old else ())
        if outcome.refusal is Refusal.CONTENT:
            # The text is refused, its place is not: the next text takes it.
            self._advance(cursor=step.slot)
            return self._patch()
        # Gone or frozen: a new message would stand below its followers, so they go first.
        self._repost = True
        return self._patch()

    def _leave_run(self, *, is_shown: bool) -> None:
        if self._is_partial and not is_shown:
            self._head = msgspec.structs.replace(self._head, upto=0)

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
        if self._goal is not None and isinstance(self._goal.event, SegmentPreview):
            cursor = self._head.cursor
        self._head = msgspec.structs.replace(self._head, cursor=cursor, parts=self._head.parts + 1)
        self._finish_if_done()

    def _drop_goal(self) -> None:
        self._goal, self._pieces = None, ()  # no text outlives its delivery in memory

    def _finish_if_done(self) -> None:
        goal = self._goal
        if goal is None or self._head.parts < len(self._pieces):
            return
        is_terminal = isinstance(goal.event, TurnDone | TurnFailed)
        if is_terminal and self._head.cursor < len(self._slots):
            return
        seq = self._head.seq if is_terminal else max(goal.seq, self._head.upto)
        self._head = msgspec.structs.replace(
            self._head, seq=seq, parts=0, closed=is_terminal, upto=0, again=()
        )
        self._drop_goal()
