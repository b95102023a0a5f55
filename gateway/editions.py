"""Which attempt a reply shows: editions of a turn, and what they call their messages.

Comes in: the head of a turn's journal, an envelope. Goes out: the head as that envelope's attempt
has it, names of messages. Pure; `gateway.sequencer` imports it.

An edition is an attempt and its claim. Numbers alone would not tell: a server that forgot its last
second counts attempts once more.
"""

from typing import Final

import msgspec
from msgspec import UnsetType

from gateway.steps import Head, nonce_of
from shared.segments import Envelope, SegmentPreview, SegmentReady

MAX_PAST: Final = 32
"""Editions remembered: more than a turn has attempts, deploys that hand it back included."""
TERMINAL_SEQ: Final = -1
"""The seq of a terminal event's texts in nonces: no segment has it."""
PREVIEW_SEQ: Final = -2
"""The same for previews; which segment they stand for is the part's number then."""


def is_of(head: Head, envelope: Envelope) -> bool:
    """Whether an envelope is of the edition that is shown."""
    return (envelope.attempt, envelope.claim) == (head.attempt, head.claim)


def is_past(head: Head, envelope: Envelope) -> bool:
    """Whether an envelope's edition was left for another one: what comes of it is void."""
    return _named(envelope.attempt, envelope.claim) in head.past


def restarted(head: Head, envelope: Envelope) -> Head:
    """The head where an edition begins, from the first message on."""
    past = _past(head, envelope)
    return Head(attempt=envelope.attempt, claim=envelope.claim, past=past)


def adopted(head: Head, envelope: Envelope) -> Head:
    """The head where an edition goes on behind what another one has shown."""
    if is_of(head, envelope):
        return head
    return Head(  # without what was begun of the other one
        attempt=envelope.attempt,
        claim=envelope.claim,
        seq=head.seq,
        cursor=head.cursor,
        past=_past(head, envelope),
    )


def numbered(head: Head, before: Head) -> Head:
    """The head as it is written next after the head `before`."""
    last = before.writes
    return msgspec.structs.replace(head, writes=1 if isinstance(last, UnsetType) else last + 1)


def nonce_for(turn_id: str, envelope: Envelope, part: int) -> str:
    """The nonce of one message of an envelope."""
    name = (turn_id, envelope.attempt, envelope.claim)
    if isinstance(envelope.event, SegmentPreview):
        return nonce_of(*name, PREVIEW_SEQ, envelope.seq)
    seq = envelope.seq if isinstance(envelope.event, SegmentReady) else TERMINAL_SEQ
    return nonce_of(*name, seq, part)


def _past(head: Head, envelope: Envelope) -> tuple[str, ...]:
    if head.attempt == 0 or is_of(head, envelope):
        return head.past
    return (*head.past, _named(head.attempt, head.claim))[-MAX_PAST:]


def _named(attempt: int, claim: str) -> str:
    return f"{attempt}/{claim}"
