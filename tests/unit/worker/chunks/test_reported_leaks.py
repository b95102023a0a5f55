"""Thoughts that other bots showed: what ours does.

Each row is a case of report 61 in docs/discord.md, *Seen elsewhere*; `¦` is where the
provider cut its deltas, braces are what the model thought.
"""

import pytest

from shared.turns import StopReason
from tests.support.chunks import say
from worker.chunks.processor import ChunkProcessor
from worker.normalize.events import Done, StreamEvent, TextDelta, ThinkingDelta
from worker.normalize.meta import Meta

ROWS = {
    "61 a block of thoughts in the text": ("<think>hm</think>Hi", "Hi", "hm"),
    "61 an opener that never ends": ("Hi <think", "Hi <think", ""),
    "61 an opener without its bracket, cut": ("Hi <thi¦nk", "Hi <think", ""),
    "61 an opener whose closer never comes": ("Hi <think>secret", "Hi ", "secret"),
    "61 a closer without an opener": ("secret</think>Hi", "Hi", "secret"),
    "61 a closer in pieces": ("gone by then</th¦ink>Hi", "gone by thenHi", ""),
    "61 two closers": ("</think></think>Hi", "Hi", ""),
    "61 thoughts of a type of their own": ("{secret}Hi", "Hi", "secret"),
    "61 typed thoughts between the words": ("{one}Hi{two} you", "Hi you", "onetwo"),
}


def events(script: str) -> list[StreamEvent]:
    """Deltas of a script."""
    made: list[StreamEvent] = []
    for part in script.replace("{", "¦{").replace("}", "}¦").split("¦"):
        if part.startswith("{"):
            made.append(ThinkingDelta(index=0, delta=part[1:-1]))
        elif part:
            made.append(TextDelta(index=1, delta=part))
    return [*made, Done(stop_reason=StopReason.STOP, content=[], usage={})]


@pytest.mark.parametrize("name", list(ROWS))
def test_thoughts_are_not_shown(name: str):
    script, visible, thoughts = ROWS[name]
    side = Meta()
    said = say(ChunkProcessor(provider="custom", model="m", meta=lambda: side), events(script))
    assert (said.text, said.thoughts) == (visible, thoughts)
