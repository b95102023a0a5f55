"""Small drawings as SVG, made on the server: sparklines and the timeline of a turn.

Comes in: numbers and moments. Goes out: markup that is safe to put into a page. Nothing of it is a
style attribute: the policy of the pages forbids those; classes come from the style sheet.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup, escape

from shared.edges.records import TimelineEntry, TurnRecord

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
LINE_WIDTH: Final = 520
ROW: Final = 26
LEFT, RIGHT = 118, 70
"""Room for the words at the left, and for the milliseconds behind the last mark."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of a turn, in milliseconds since its first one."""

    after_ms: int
    word: str
    attempt: int
    who: str


def sparkline(counts: Sequence[int]) -> Markup:
    """Bars, one per hour, as high as their share of the highest."""
    top = max(counts, default=0) or 1
    width = SPARK_WIDTH / max(1, len(counts))
    bars = Markup("").join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            at * width, SPARK_HEIGHT * (1 - count / top), width - 0.8, SPARK_HEIGHT * count / top
        )
        for at, count in enumerate(counts)
    )
    label = f"{sum(counts)} in {len(counts)} hours, {top if sum(counts) else 0} at most in one"
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, label, bars)


def marks_of(record: TurnRecord, entries: Sequence[TimelineEntry]) -> list[Mark]:
    """What happened to a turn, in order, with the moments that only the worker knows."""
    moments = [(entry.at_ms, entry.word, entry.attempt, entry.who) for entry in entries]
    outcome, claimed_ms = record.outcome, record.claimed_ms
    if outcome is not None and claimed_ms is not None:
        for word, after_ms in (
            ("first byte", outcome.first_byte_ms),
            ("first segment", outcome.first_segment_ms),
        ):
            if after_ms is not None:
                moments.append((claimed_ms + after_ms, word, record.attempt, record.worker_id))
    moments.sort(key=lambda moment: moment[0])
    start_ms = min([record.enqueued_ms, *(moment[0] for moment in moments)])
    return [
        Mark(after_ms=at_ms - start_ms, word=word, attempt=attempt, who=who)
        for at_ms, word, attempt, who in moments
    ]


def timeline(marks: Sequence[Mark]) -> Markup:
    """A line per moment; its dot stands where it belongs in time."""
    if not marks:
        return Markup("")
    whole_ms = max(mark.after_ms for mark in marks) or 1
    room = LINE_WIDTH - LEFT - RIGHT
    rows = []
    for number, mark in enumerate(marks):
        x, y = LEFT + room * mark.after_ms / whole_ms, number * ROW + ROW / 2
        rows.append(
            Markup(
                '<line class="rail" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text x="0" y="{}">{}</text><circle class="{}" cx="{:.1f}" cy="{}" r="5"/>'
                '<text class="ms" x="{:.1f}" y="{}">{} ms</text>'
            ).format(
                *(LEFT, LINE_WIDTH - RIGHT, y, y, y + 4, _named(mark)),
                *(f"mark {mark.word.replace(' ', '-')}", x, y, x + 10, y + 4, mark.after_ms),
            )
        )
    label = ", ".join(f"{mark.word} after {mark.after_ms} ms" for mark in marks)
    return Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(LINE_WIDTH, len(marks) * ROW, label, Markup("").join(rows))


def _named(mark: Mark) -> str:
    """The word with its attempt, where a turn has several."""
    return f"attempt {mark.attempt}" if mark.word == "next" else mark.word


def bar(count: int, top: int) -> Markup:
    """A bar of a facet."""
    width = 100 * count / max(top, 1)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{}" height="8"/></svg>'
    ).format(escape(f"{width:.1f}"))
