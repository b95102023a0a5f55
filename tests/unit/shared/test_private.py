"""What was said stands in no `repr`."""

import msgspec
import pytest

from gateway.edges.discord_voices import Hook
from gateway.front import Prompt, PromptEdited
from shared.messages import (
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.private import told_by_size
from shared.turns import Front, StopReason
from tests.support.turns import turn
from worker.chunks.pieces import Reasoned, Visible
from worker.chunks.types import (
    DoneChunk,
    FunctionCall,
    FunctionCallChunk,
    TextChunk,
    Thought,
    ThoughtKind,
)
from worker.normalize.events import Done, FaultReason, StreamFailed, TextDelta, ThinkingDelta
from worker.providers.requests import model_request

SAID = "canary"
CALL = FunctionCall(id="c", name="look", args={SAID: SAID})
MESSAGE = Message(
    role=Role.ASSISTANT,
    content=[
        TextBlock(text=SAID),
        ThinkingBlock(thinking=SAID, thinking_signature=SAID),
        ToolCallBlock(id="c", name="look", arguments={"a": [SAID]}),
        ImageBlock(mime_type="image/png", data=SAID),
        OpaqueBlock(provider="p", raw={"x": SAID}),
    ],
)
REQUEST = turn(system=SAID, persona=SAID)
VALUES = [
    MESSAGE,
    msgspec.structs.replace(REQUEST, messages=[MESSAGE]),
    model_request(REQUEST),
    TextDelta(index=0, delta=SAID),
    ThinkingDelta(index=0, delta=SAID, signature=SAID),
    Done(stop_reason=StopReason.STOP, content=[TextBlock(text=SAID)], usage={}),
    StreamFailed(reason=FaultReason(code="x", message=SAID)),
    TextChunk(content=SAID),
    Thought(kind=ThoughtKind.RAW, content=SAID),
    TextChunk(thoughts=(Thought(kind=ThoughtKind.RAW, content=SAID),)),
    CALL,
    FunctionCallChunk(call=CALL),
    DoneChunk(metadata={"a": SAID}),
    Visible(SAID),
    Reasoned(SAID),
    Prompt(front=Front.DISCORD, message_id=1, channel_id=2, user_id=3, text=SAID, author=SAID),
    PromptEdited(channel_id=2, turn_id="m1", text=SAID),
    Hook(id=1, token=SAID),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_was_said_is_told_by_its_size(value):
    for text in (repr(value), str(value), f"{value}", repr([value])):
        assert SAID not in text


def test_sizes_numbers_and_our_own_words_are_told():
    assert repr(TextDelta(index=3, delta="four")) == "TextDelta(index=3, delta=<4 chars>)"
    thought = Thought(kind=ThoughtKind.RAW, content="")
    assert repr(thought) == "Thought(kind=<ThoughtKind.RAW: 'raw'>, content=<0 chars>)"
    assert "arguments=<1 entries>" in repr(ToolCallBlock(id="c", name="n", arguments={"a": 1}))
    assert "raw=<2 bytes>" in repr(OpaqueBlock(provider="p", raw=msgspec.Raw(b"{}")))


def test_only_structs_are_told_by_size():
    with pytest.raises(TypeError, match="only structs"):
        told_by_size("text")
