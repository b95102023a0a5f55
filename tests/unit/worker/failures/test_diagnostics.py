"""Summaries of requests and empty replies: counts and roles, never content."""

import pytest

from shared.messages import (
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.wire import encode_json
from worker.failures.diagnostics import empty_reply_diagnostics, request_diagnostics

CANARY = "do-not-show"
CALL = ToolCallBlock(id="c", name=CANARY, arguments={CANARY: 1})


def message(role: Role, content: object = CANARY) -> Message:
    return Message(role=role, content=content)  # type: ignore[arg-type]  # both forms are tried


def summary(*messages: Message) -> dict[str, object]:
    made = request_diagnostics(messages, model="m-1", received_chunks=3, elapsed_ms=40)
    assert CANARY.encode() not in encode_json(made)
    inner = made["requestDiagnostics"]
    assert isinstance(inner, dict)
    return inner


def test_the_last_roles_and_the_parts_of_the_final_turn():
    blocks = [
        TextBlock(text=CANARY), ImageBlock(mime_type="image/png", url=CANARY),
        ImageBlock(mime_type="image/png", data=CANARY), ThinkingBlock(thinking=CANARY),
        OpaqueBlock(provider="p", raw=CANARY),
    ]  # fmt: skip
    turns = [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.DEVELOPER]
    found = summary(*map(message, turns), message(Role.USER, blocks))
    assert found == {
        "model": "m-1",
        "lastRoles": ["user", "assistant", "user", "assistant", "user"],
        "finalTurnParts": {"text": 1, "image": 2, "thinking": 1, "opaque": 1},
        "hasPrefill": False,
        "hasToolHistory": False,
        "receivedChunks": 3,
        "elapsedMs": 40,
    }


@pytest.mark.parametrize(
    ("messages", "prefill", "tools"),
    [
        ([message(Role.USER), message(Role.ASSISTANT)], True, False),
        ([message(Role.TOOL), message(Role.USER)], False, True),
        ([message(Role.ASSISTANT, [CALL])], True, True),
        ([], False, False),
    ],
    ids=["prefill", "tool result", "tool call", "nothing"],
)  # fmt: skip
def test_prefill_and_tool_history(messages, prefill, tools):
    found = summary(*messages)
    assert (found["hasPrefill"], found["hasToolHistory"]) == (prefill, tools)


def test_counts_of_an_empty_reply_that_are_none_stay_unknown():
    usage = {"input": 12, "output": 0, "reasoning": -1, "total": "44"}
    assert empty_reply_diagnostics(
        usage, finish_reason="stop", reasoning_present=True, output_limit=None, request_id="r-1"
    ) == {
        "emptyReply": {
            "finishReason": "stop",
            "tokens": {"input": 12, "output": 0, "reasoning": None, "total": None},
            "reasoningPresent": True,
            "outputLimit": None,
            "providerRequestId": "r-1",
        }
    }


@pytest.mark.parametrize("value", [True, None, 1.5, "3"])
def test_what_is_no_count(value):
    made = empty_reply_diagnostics(
        {"input": value},
        finish_reason=None,
        reasoning_present=False,
        output_limit=1,
        request_id=None,
    )
    assert '"input":null' in encode_json(made).decode()
