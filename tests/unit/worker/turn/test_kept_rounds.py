"""Rounds that are complete: kept for whoever takes a turn over, and never run once more."""

import asyncio
import json

import pytest

from shared.errors import WireError
from shared.messages import ContentBlock, Message, OpaqueBlock, Role, ThinkingBlock
from shared.segments import TurnDone
from shared.turns import Target, TurnState
from tests.support import wire
from tests.support.tool_case import ToolCase, call, calling, saying
from tests.support.turn_ports import BREAK, SILENCE, RememberingOutbox, ScriptedResponse
from worker.turn.rounds import MAX_KEPT_BYTES, Round, dump, load
from worker.turn.tool_rounds import ToolLimits

ECHO = call("echo", '{"text": "a result"}')


async def dies_after(case: ToolCase) -> RememberingOutbox:
    """Runs a case until its provider is silent, and gives its outbox to another worker."""
    task = asyncio.create_task(case.run())
    async with asyncio.timeout(5):
        while len(case.provider.requests) < 2:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    return case.outbox


async def test_another_worker_goes_on_from_the_results():
    outbox = await dies_after(ToolCase(calling(ECHO, say="Let me look. And then"), SILENCE))
    await outbox.next_attempt()
    heir = ToolCase(saying("Found it."))
    heir.outbox = outbox
    outcome = await heir.run()
    assert heir.tools.ran == []
    assert outcome.state is TurnState.DONE
    assert outbox.texts == ["Let me look.", "Found it."]
    assert heir.end == TurnDone(count=2)
    user, answer, result = heir.bodies[0]["messages"]
    assert (user["role"], answer["content"]) == ("user", "Let me look. And then")
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
    assert "a result" in result["content"]


async def test_the_rounds_of_the_dead_worker_count():
    limits = ToolLimits(rounds=1)
    outbox = await dies_after(ToolCase(calling(ECHO), SILENCE, tool_limits=limits))
    heir = ToolCase(calling(ECHO), saying("Then without."), tool_limits=limits)
    heir.outbox = outbox
    await heir.run()
    assert heir.tools.ran == []


async def test_rounds_that_nobody_can_read_run_no_tool():
    case = ToolCase(saying("Never asked."))
    case.outbox.rounds = b"[{}]"
    with pytest.raises(WireError):
        await case.run()
    assert case.provider.requests == []


async def test_rounds_that_are_too_long_are_not_kept():
    text = "x" * (MAX_KEPT_BYTES // 2)
    one = Round(said="", trims=True, messages=[Message(role=Role.TOOL, content=text)])
    assert dump([one]) is not None
    assert dump([one, one]) is None


def test_reasoning_and_a_vendors_own_blocks_are_kept_as_they_are():
    blocks: list[ContentBlock] = [
        ThinkingBlock(thinking="hm \U0001f914", thinking_signature="c2ln+/=="),
        OpaqueBlock(provider="anthropic", raw={"n": 2**63, "deep": [None, 1.5, {"a": ""}]}),
    ]
    one = Round(said="s", trims=False, messages=[Message(role=Role.ASSISTANT, content=blocks)])
    kept = dump([one])
    assert kept is not None
    assert load(kept) == [one]


GOOGLE = Target(provider="google", model="gemini")
GROUNDING = {"groundingChunks": [{"web": {"uri": "https://a.example/", "title": "A page"}}]}
SEARCHED = ScriptedResponse(
    [
        wire.sse(wire.gemini({"text": "It rains."})),
        wire.sse(wire.gemini({"functionCall": {"name": "echo", "args": {"text": "x"}}})),
        wire.sse({"candidates": [{"groundingMetadata": GROUNDING, "finishReason": "STOP"}]}),
    ]
)
TOLD = ScriptedResponse([wire.sse(wire.gemini({"text": "So it is."}, finish="STOP"))])
WITH_ITS_SOURCE = ["It rains.", "So it is.", "-# reply.sources:en [A page](<https://a.example/>)"]


async def test_the_sources_of_a_completed_round_stand_under_the_reply_of_the_next_attempt():
    case = ToolCase(SEARCHED, ScriptedResponse([BREAK]), TOLD, target=GOOGLE)
    await case.run()
    again = [one.text for one in case.outbox.segments if one.attempt == 2]
    assert (len(case.tools.ran), again) == (1, WITH_ITS_SOURCE)


async def test_another_worker_cites_what_the_dead_one_had_found():
    outbox = await dies_after(ToolCase(SEARCHED, SILENCE, target=GOOGLE))
    await outbox.next_attempt()
    heir = ToolCase(TOLD, target=GOOGLE)
    heir.outbox = outbox
    await heir.run()
    assert outbox.texts == WITH_ITS_SOURCE


def test_rounds_that_were_kept_without_their_sources_are_read():
    (one,) = load(b'[{"said":"s","trims":true,"messages":[]}]')
    assert one == Round(said="s", trims=True, messages=[], sources=[])


async def test_only_what_may_not_run_twice_is_noted_before_it_runs():
    harmless = ToolCase(calling(call("count", '{"n": 1}')), saying("Done."))
    await harmless.run()
    assert harmless.outbox.tools_noted == 0
    both = ToolCase(
        calling(call("count", '{"n": 1}'), call("echo", id="c2", index=1)), saying("Done.")
    )
    await both.run()
    assert both.outbox.tools_noted == 1


SAME_IDS = {
    "one id for two calls": ["c1", "c1"],
    "no ids": ["", ""],
    "the id of the round before": ["c0", "c0"],
}


@pytest.mark.parametrize("ids", SAME_IDS.values(), ids=SAME_IDS)
async def test_every_call_has_its_own_answer_whatever_its_id_is(ids):
    first = call("echo", '{"text": "first"}', id="c0")
    calls = [
        call("echo", '{"text": "left"}', id=ids[0], index=0),
        call("echo", '{"text": "right"}', id=ids[1], index=1),
    ]
    case = ToolCase(calling(first), calling(*calls), saying("Done."))
    await case.run()
    assert [args["text"] for _, args, _ in case.tools.ran] == ["first", "left", "right"]
    _, _, first_result, answer, left, right = case.bodies[-1]["messages"]
    sent = [one["id"] for one in answer["tool_calls"]]
    assert [left["tool_call_id"], right["tool_call_id"]] == sent
    assert len({first_result["tool_call_id"], *sent}) == 3
    assert left["content"].endswith("left")
    assert right["content"].endswith("right")
    assert json.loads(answer["tool_calls"][1]["function"]["arguments"]) == {"text": "right"}
