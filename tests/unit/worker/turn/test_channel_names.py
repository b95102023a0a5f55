"""What the rooms know of the channel: own name, people, emoji, and where somebody else begins."""

import json

import msgspec
import pytest

from shared.history import Reading
from shared.segments import DeliveryMode
from shared.turns import StopReason, Target, ToolSpec
from tests.support.tool_case import DONE, call
from tests.support.tool_case import frame as tool_frame
from tests.support.turns import turn
from worker.turn.pipeline import Pipeline, pipeline_for


def frame(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def pipeline(
    tools: tuple[ToolSpec, ...] = (),
    target: Target | None = None,
    mode: DeliveryMode = DeliveryMode.LINE,
    **facts: object,
) -> Pipeline:
    given = {"before": 9, "own_name": "Ada", "members": (("Ann", 5),), **facts}
    reading = Reading(**given)  # type: ignore[arg-type]  # facts by name
    request = msgspec.structs.replace(turn(tools=tools), reading=reading, delivery_mode=mode.value)
    return pipeline_for(request, target or request.target, 1)


def test_the_own_name_is_no_label_and_names_become_mentions():
    rooms = pipeline(emoji=(("wave", "<:wave:7>"),))
    segments = rooms.feed(frame("Ada: hello @Ann :wave:\n", "stop") + b"data: [DONE]\n\n")
    segments += rooms.flush()
    assert [segment.text for segment in segments] == ["hello <@5> <:wave:7>"]


def test_a_reply_ends_where_the_model_speaks_for_somebody_else():
    rooms = pipeline(speakers=("Ann",))
    segments = rooms.feed(frame("My answer.\nAnn: thank you!\n"))
    segments += rooms.feed(frame("And more.\n"))
    assert rooms.end is not None  # the driver closes the stream
    segments += rooms.flush()
    assert [segment.text for segment in segments] == ["My answer."]
    assert rooms.stop_reason is StopReason.STOP
    assert not rooms.goes_on


def test_without_the_guard_another_name_is_text():
    rooms = pipeline()
    segments = rooms.feed(frame("My answer.\nAnn: thank you!\n", "stop") + b"data: [DONE]\n\n")
    segments += rooms.flush()
    assert "".join(segment.text for segment in segments) == "My answer.Ann: thank you!"


OVER = [
    frame("My answer.\nAnn: thank you!\n"),
    frame("And more.\n"),
    tool_frame(tool_calls=[call("roll", '{"sides": 6}')]),
    tool_frame("tool_calls") + DONE,
]
"""The guard ends the reply at the first line; a call of a tool follows all the same."""


@pytest.mark.parametrize("parts", [OVER, [b"".join(OVER)]], ids=["read as it comes", "at once"])
def test_no_tool_is_called_after_the_guard_ended_the_reply(parts):
    rooms = pipeline((ToolSpec(name="roll"),), speakers=("Ann",))
    segments = [segment for part in parts for segment in rooms.feed(part)] + rooms.flush()
    assert [segment.text for segment in segments] == ["My answer."]
    assert rooms.calls == []
    assert not rooms.goes_on
    assert rooms.stop_reason is StopReason.STOP


@pytest.mark.parametrize("mode", DeliveryMode)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_nor_where_the_guard_finds_the_speaker_only_at_the_end(finish, mode):
    """The last line has no line end: it is read when the stream is over."""
    rooms = pipeline((ToolSpec(name="roll"),), mode=mode, speakers=("Ann",))
    segments = rooms.feed(frame("My answer.\nAnn: thank you"))
    segments += rooms.feed(tool_frame(tool_calls=[call("roll", '{"sides": 6}')]))
    segments += rooms.feed(tool_frame(finish) + DONE) + rooms.flush()
    assert [segment.text for segment in segments] == ["My answer."]
    assert rooms.calls == []
    assert not rooms.goes_on
    assert rooms.stop_reason is StopReason.STOP


def test_a_reply_that_paused_ends_where_the_guard_ended_it():
    message = {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1}}
    text = {"type": "text_delta", "text": "My answer.\nAnn: thank you"}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    for speakers, goes_on in (((), True), (("Ann",), False)):
        rooms = pipeline(target=Target(provider="anthropic", model="m"), speakers=speakers)
        rooms.feed(body)
        rooms.flush()
        assert rooms.goes_on is goes_on
