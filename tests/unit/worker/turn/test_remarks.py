"""What a finished reply remarks: thoughts that may be looked at, a model that stood in."""

import asyncio
import json
from typing import Any

import pytest

from shared.segments import FALLBACK, THOUGHTS, TurnDone
from shared.turns import Target
from tests.support.turn_ports import (
    KeepingReporter,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn


def frame(**delta: str) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


END = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def thinking() -> ScriptedResponse:
    said = [frame(reasoning_content="Well, "), frame(reasoning_content="let me see.")]
    return ScriptedResponse([*said, frame(content="Here it is."), END, DONE])


async def ended(outbox: RememberingOutbox, *answers: ScriptedResponse, **request: Any) -> object:
    played = runner(ScriptedProvider(*answers), KeepingReporter())
    await played.run(turn(**request), outbox, asyncio.Event())
    return outbox.ends[-1][0]


@pytest.mark.parametrize("keep_s", [0, 3600], ids=["not kept", "kept"])
async def test_thoughts_are_kept_only_where_the_turn_says_so(keep_s: int):
    outbox = RememberingOutbox()
    event = await ended(outbox, thinking(), keep_thoughts_s=keep_s)
    assert isinstance(event, TurnDone)
    assert event.notes == ((THOUGHTS,) if keep_s else ())
    assert outbox.thoughts == ([("Well, let me see.", keep_s)] if keep_s else [])


async def test_a_model_that_stood_in_is_remarked_once():
    outbox = RememberingOutbox()
    others = (Target(provider="openai", model="spare"),)
    notes = []
    for _ in range(2):
        refused = ScriptedResponse([b'{"error":{"message":"no such model"}}'], status=404)
        event = await ended(outbox, refused, thinking(), fallbacks=others)
        assert isinstance(event, TurnDone)
        notes.append(event.notes)
    assert notes == [(FALLBACK,), ()]
