"""What is kept of a reply that reached its length, and what the turn that goes on asks."""

import json

import msgspec
import pytest

from shared.continuing import GO_ON, continued, load
from shared.segments import TurnDone
from shared.turns import Api, StopReason, Target
from tests.support import wire
from tests.support.tool_case import ToolCase, call, calling, frame, saying
from tests.support.turn_ports import ScriptedResponse
from worker.providers.building import build_request
from worker.providers.requests import Endpoint, model_request

CUT = ScriptedResponse([frame(content="One, two, th"), frame("length"), b"data: [DONE]\n\n"])


async def test_a_reply_that_reached_its_length_is_kept_with_its_rounds():
    case = ToolCase(calling(call("echo"), say="Let me look."), CUT)
    await case.run()
    assert isinstance(case.end, TurnDone)
    assert case.end.stop_reason is StopReason.LENGTH
    assert case.outbox.continuation is not None
    kept = load(case.outbox.continuation)
    assert kept.request == case.request
    assert kept.said == "One, two, th"
    assert [message.role for message in kept.rounds] == ["assistant", "tool"]


@pytest.mark.parametrize(
    "answer",
    [saying("All of it."), ScriptedResponse([frame(reasoning_content="hm"), frame("length")])],
    ids=["a whole reply", "nothing but reasoning"],
)
async def test_other_replies_are_not_kept(answer: ScriptedResponse):
    case = ToolCase(answer)
    await case.run()
    assert case.outbox.continuation is None


async def test_the_next_turn_goes_on_from_the_text_that_was_shown():
    case = ToolCase(CUT)
    await case.run()
    assert case.outbox.continuation is not None
    following = ToolCase(saying("ree, four."))
    following.request = continued(load(case.outbox.continuation), created_ms=1)
    await following.run()
    _, said, go_on = following.bodies[0]["messages"]
    assert (said["role"], said["content"]) == ("assistant", "One, two, th")
    assert (go_on["role"], go_on["content"]) == ("user", GO_ON)
    assert following.outbox.segments[0].turn_id == "l1.2"


async def test_the_line_of_sources_is_not_what_the_model_said():
    found = {"groundingChunks": [{"web": {"uri": "https://a.example/", "title": "A page"}}]}
    cut = [
        wire.sse(wire.gemini({"text": "It rains, and th"})),
        wire.sse({"candidates": [{"groundingMetadata": found, "finishReason": "MAX_TOKENS"}]}),
    ]
    case = ToolCase(ScriptedResponse(cut), target=Target(provider="google", model="gemini"))
    await case.run()
    assert "https://a.example/" in case.outbox.texts[-1]
    assert case.outbox.continuation is not None
    assert load(case.outbox.continuation).said == "It rains, and th"


@pytest.mark.parametrize("api", [api for api in Api if api is not Api.AUTO])
async def test_every_format_takes_a_reply_that_goes_on(api: Api):
    case = ToolCase(CUT)
    await case.run()
    assert case.outbox.continuation is not None
    request = continued(load(case.outbox.continuation), created_ms=1)
    target = Target(api=api, provider="my-box", model="m")
    asked = model_request(msgspec.structs.replace(request, target=target))
    body = build_request(asked, Endpoint(base_url="http://model.invalid/v1")).body
    text = json.dumps(json.loads(body))
    assert text.index("One, two, th") < text.index(GO_ON)
