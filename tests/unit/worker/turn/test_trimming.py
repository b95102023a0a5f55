"""A shorter history: whole exchanges go, the oldest first; instructions and the prompt stay."""

import json
from typing import Any

import msgspec

from shared.messages import Message, Role, ToolCallBlock
from tests.support.tool_case import ToolCase, call, calling, saying
from tests.support.turn_ports import ScriptedResponse
from worker.turn.trimming import trimmed

OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 16384 tokens.",
        "code": "context_length_exceeded",
    }
}


def said(role: Role, text: str) -> Message:
    return Message(role=role, content=text)


def exchanges(count: int) -> list[Message]:
    pairs = [
        (said(Role.USER, f"question {n}"), said(Role.ASSISTANT, f"answer {n}"))
        for n in range(count)
    ]
    return [message for pair in pairs for message in pair]


def texts(messages: list[Message] | None) -> list[Any]:
    assert messages is not None
    return [message.content for message in messages]


PROMPT = said(Role.USER, "prompt")


def test_a_prompt_alone_cannot_be_shorter():
    assert trimmed([PROMPT]) is None
    assert trimmed([said(Role.SYSTEM, "rules"), PROMPT]) is None
    assert trimmed([said(Role.ASSISTANT, "hello"), PROMPT]) is None


def test_the_older_half_goes():
    kept = texts(trimmed([*exchanges(4), PROMPT]))
    assert kept == ["question 2", "answer 2", "question 3", "answer 3", "prompt"]
    assert texts(trimmed([*exchanges(1), PROMPT])) == ["prompt"]


def test_instructions_stay():
    history = [said(Role.SYSTEM, "rules"), *exchanges(2), PROMPT]
    assert texts(trimmed(history)) == ["rules", "question 1", "answer 1", "prompt"]


def test_no_result_stays_without_its_call():
    block = ToolCallBlock(id="c", name="t")
    round_ = [
        said(Role.USER, "old"),
        Message(role=Role.ASSISTANT, content=[block]),
        Message(role=Role.TOOL, content="result", tool_call_id="c"),
        Message(role=Role.TOOL, content="result", tool_call_id="d"),
    ]
    assert texts(trimmed([*round_, PROMPT])) == ["prompt"]


def test_the_rounds_of_the_turn_itself_stay():
    own = [said(Role.ASSISTANT, "calls"), said(Role.TOOL, "result")]
    kept = texts(trimmed([*exchanges(1), PROMPT, *own]))
    assert kept == ["prompt", "calls", "result"]


async def test_a_turn_that_overflows_is_asked_once_with_less_and_keeps_its_round():
    overflow = ScriptedResponse([json.dumps(OVERFLOW).encode()], 400)
    case = ToolCase(calling(call("echo")), overflow, saying("Short."))
    case.request = msgspec.structs.replace(case.request, messages=[*exchanges(2), PROMPT])
    await case.run()
    assert case.outbox.texts == ["Short."]
    assert len(case.tools.ran) == 1
    sent = [one["content"] for one in case.bodies[2]["messages"]]
    assert sent[:3] == ["question 1", "answer 1", "prompt"]
    assert len(sent) == 5


async def test_where_nothing_can_go_the_overflow_ends_the_turn():
    overflow = ScriptedResponse([json.dumps(OVERFLOW).encode()], 400)
    case = ToolCase(overflow)
    outcome = await case.run()
    assert outcome.cause == "context_overflow"
