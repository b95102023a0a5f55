"""How often a growing message is looked at: as often as Discord takes edits, and when it grew."""

import json

import pytest

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode
from tests.support.turns import turn
from worker.turn.attempt import PREVIEW_EVERY_S, Attempt
from worker.turn.ports import TimeLimits
from worker.turn.words import Words

TOKENS_PER_S = 100
LIMITS = TimeLimits(
    first_byte_s=60.0, between_chunks_s=90.0, whole_stream_s=240.0, turn_deadline_s=300.0
)
WORDS = "It goes on and on. "


def attempt() -> Attempt:
    request = turn(delivery_mode=DeliveryMode.EDIT)
    return Attempt(
        request=request,
        target=request.target,
        keyed=None,
        number=1,
        limits=LIMITS,
        started_s=0.0,
        turn_started_s=0.0,
        words=Words(),
    )


def said(text: str) -> bytes:
    event = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(event)}\n\n".encode()


ROWS = {
    "36 a model that is fast": WORDS,
    "33 a fence that is longer than a message": "xxxx\n",
    "33 a model that stands still": "",
}


@pytest.mark.parametrize("name", list(ROWS))
def test_looks_are_few_and_never_the_same(name: str):
    """Numbers are those of the reports that docs/discord.md, *Seen elsewhere*, refers to."""
    growing, seconds, looks = attempt(), 20, list[str]()
    growing.feed(said("```\n" if "fence" in name else WORDS), 0.0)
    for number in range(seconds * TOKENS_PER_S):
        now_s = number / TOKENS_PER_S
        if ROWS[name]:
            growing.feed(said(ROWS[name]), now_s)
        if (look := growing.preview(now_s)) is not None:
            looks.append(look)
    assert len(looks) <= seconds / PREVIEW_EVERY_S
    assert len(set(looks)) == len(looks)
    assert all(len(look) <= MAX_SEGMENT_CHARS for look in looks)
    assert len(looks) >= 1 or "fence" in name
