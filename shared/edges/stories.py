"""The story of a turn: its timeline, with the moments that only its worker knows.

Comes in: a record and its timeline. Goes out: moments, in order. Ops imports it.
"""

from collections.abc import Iterable

import msgspec

from shared.edges.records import TimelineEntry, TurnRecord


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a turn, `after_ms` milliseconds after the first such thing."""

    at_ms: int
    after_ms: int
    word: str
    attempt: int
    who: str


def story(record: TurnRecord, entries: Iterable[TimelineEntry]) -> list[Moment]:
    """What happened to a turn, in order, the moments that only its worker knows in their places."""
    lines = [(entry.at_ms, entry.word, entry.attempt, entry.who) for entry in entries]
    outcome, claimed_ms = record.outcome, record.claimed_ms
    if outcome is not None and claimed_ms is not None:
        for word, after_ms in (
            ("first byte", outcome.first_byte_ms),
            ("first segment", outcome.first_segment_ms),
        ):
            if after_ms is not None:
                lines.append((claimed_ms + after_ms, word, record.attempt, record.worker_id))
    lines.sort(key=lambda line: line[0])
    start_ms = min([record.enqueued_ms, *(line[0] for line in lines)])
    return [
        Moment(at_ms=at_ms, after_ms=at_ms - start_ms, word=word, attempt=attempt, who=who)
        for at_ms, word, attempt, who in lines
    ]
