"""Envelopes of turns, for tests of the gateway."""

from itertools import count

from shared.segments import (
    AttemptSuperseded,
    Envelope,
    Segment,
    SegmentKind,
    SegmentPreview,
    SegmentReady,
    TurnDone,
    TurnEvent,
    TurnFailed,
)
from shared.turns import Front, Route

NOW_MS = 1_700_000_000_000
_numbers = count(1)


def envelope(
    event: TurnEvent,
    seq: int,
    *,
    turn: str = "l1",
    attempt: int = 1,
    claim: str = "aaaa0001",
    channel: int = 7,
    front: Front = Front.LOCAL,
    at_ms: int = NOW_MS,
) -> Envelope:
    return Envelope(
        entry_id=f"{at_ms}-{next(_numbers)}",
        turn_id=turn,
        attempt=attempt,
        claim=claim,
        seq=seq,
        route=Route(front=front, channel_id=channel, user_id=5, guild_id=3, reply_to=500),
        event=event,
    )


def text(
    seq: int,
    words: str,
    *,
    turn: str = "l1",
    attempt: int = 1,
    claim: str = "aaaa0001",
    channel: int = 7,
    kind: SegmentKind = SegmentKind.TEXT,
    fallback: tuple[str, ...] = (),
    joint: str | None = None,
    name: str | None = None,
    picture: str | None = None,
    at_ms: int = NOW_MS,
) -> Envelope:
    segment = Segment(
        turn_id=turn,
        attempt=attempt,
        seq=seq,
        kind=kind,
        text=words,
        start=0,
        end=len(words),
        fallback=fallback,
        joint=joint,
        filename=name,
        picture=picture,
    )
    return envelope(
        SegmentReady(segment=segment),
        seq,
        turn=turn,
        attempt=attempt,
        claim=claim,
        channel=channel,
        at_ms=at_ms,
    )


def preview(
    seq: int,
    words: str,
    *,
    turn: str = "l1",
    attempt: int = 1,
    claim: str = "aaaa0001",
    channel: int = 7,
) -> Envelope:
    """What may be seen of the segment after `seq`."""
    event = SegmentPreview(text=words)
    return envelope(event, seq, turn=turn, attempt=attempt, claim=claim, channel=channel)


def superseded(by: int, *, turn: str = "l1", claim: str = "aaaa0001", channel: int = 7) -> Envelope:
    event = AttemptSuperseded(attempt=by - 1, by=by)
    return envelope(event, 0, turn=turn, attempt=by, claim=claim, channel=channel)


def done(
    segments: int,
    *,
    turn: str = "l1",
    attempt: int = 1,
    claim: str = "aaaa0001",
    channel: int = 7,
    notes: tuple[str, ...] = (),
) -> Envelope:
    event = TurnDone(count=segments, notes=notes)
    return envelope(event, segments + 1, turn=turn, attempt=attempt, claim=claim, channel=channel)


def failed(
    segments: int,
    headline: str = "It failed.",
    *,
    turn: str = "l1",
    attempt: int = 1,
    claim: str = "aaaa0001",
    channel: int = 7,
) -> Envelope:
    event = TurnFailed(
        cause="overloaded",
        category="provider_overloaded",
        count=segments,
        headline=headline,
        fault="user",
    )
    return envelope(event, segments + 1, turn=turn, attempt=attempt, claim=claim, channel=channel)
