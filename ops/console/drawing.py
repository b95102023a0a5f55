"""Small drawings as SVG, made on the server: sparklines and the timeline of a turn.

Comes in: numbers and moments. Goes out: markup that is safe to put into a page. Nothing of it is a
style attribute: the policy of the pages forbids those; classes come from the style sheet.
"""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from shared.edges.stories import Moment

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
LINE_WIDTH: Final = 400
"""As wide as a phone, so that words are as large there as elsewhere."""
ROW: Final = 26
LEFT, RIGHT = 108, 70
"""Room for the words at the left, and for the milliseconds behind the last mark."""


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
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<line class="rail" x1="0" x2="{}" y1="{}" y2="{}"/>{}</svg>'
    ).format(
        *(SPARK_WIDTH, SPARK_HEIGHT, label),
        *(SPARK_WIDTH, SPARK_HEIGHT - 0.5, SPARK_HEIGHT - 0.5, bars),
    )


def timeline(marks: Sequence[Moment]) -> Markup:
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


def _named(mark: Moment) -> str:
    """The word with its attempt, where a turn has several."""
    return f"attempt {mark.attempt}" if mark.word == "next" else mark.word


def bar(count: int, top: int) -> Markup:
    """A bar of a facet."""
    width = 100 * count / max(top, 1)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{}" height="8"/></svg>'
    ).format(escape(f"{width:.1f}"))
