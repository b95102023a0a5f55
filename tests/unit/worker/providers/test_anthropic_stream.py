from typing import Any

import pytest

from shared.messages import (
    ArgumentState,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.turns import StopReason
from tests.support import streams, wire
from worker.normalize.events import Done, StreamFailed, ToolCallDelta


def start(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int | None) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def run(*blocks: dict[str, Any], **message: Any) -> streams.Run:
    return streams.run("anthropic", [wire.claude(*blocks, **message)])


def content(*blocks: dict[str, Any], **message: Any) -> list[Any]:
    end = run(*blocks, **message).end
    assert isinstance(end, Done)
    return end.content


def test_deltas_of_a_block_whose_start_was_lost_open_it():
    blocks = content(
        delta(4, "text_delta", text="a"),
        delta(5, "thinking_delta", thinking="b"),
        delta(6, "input_json_delta", partial_json="{}"),
        delta(4, "text_delta", text="c"),
    )
    assert blocks == [TextBlock(text="ac"), ThinkingBlock(thinking="b")]


def test_deltas_of_another_kind_than_their_block_are_dropped():
    seen = run(
        start(0, "text", text=""),
        delta(0, "thinking_delta", thinking="x"),
        delta(0, "input_json_delta", partial_json="{}"),
        delta(0, "signature_delta", signature="s"),
        delta(0, "text_delta"),
        delta(0, "sparkle_delta"),
        {"type": "content_block_delta", "index": 0},
        start(1, "thinking", thinking=""),
        delta(1, "text_delta", text="x"),
        delta(1, "citations_delta", citation={}),
        delta(1, "thinking_delta", thinking=""),
        delta(1, "signature_delta", signature="s"),
        delta(1, "input_json_delta", partial_json=""),
        {"type": "sparkle"},
    )
    assert isinstance(seen.end, Done)
    signed = ThinkingBlock(thinking="", thinking_signature="s")
    assert seen.end.content == [TextBlock(text=""), signed]
    assert seen.meta.unknown == 4


def test_citations_are_collected_on_their_block():
    cited = {"type": "page_location", "start": 1}
    blocks = content(
        start(0, "text", text="a", citations=[cited]),
        delta(0, "citations_delta", citation=cited),
        start(1, "text", text="", citations=None),
    )
    assert blocks == [TextBlock(text="a", citations=[cited, cited]), TextBlock(text="")]


def test_thinking_may_come_whole():
    blocks = content(
        start(0, "thinking", thinking="a", signature="s"), start(1, "redacted_thinking", data="d")
    )
    assert blocks == [
        ThinkingBlock(thinking="a", thinking_signature="s"),
        ThinkingBlock(thinking="", thinking_signature="d", redacted=True),
    ]


@pytest.mark.parametrize("stops", [[stop(0)], []], ids=["stopped", "never stopped"])
def test_input_that_came_whole_counts_unless_deltas_follow(stops: list[dict[str, Any]]):
    call = start(0, "tool_use", id="t", name="f", input={"a": 1})
    assert content(call, *stops) == [ToolCallBlock(id="t", name="f", arguments={"a": 1})]
    streamed = content(call, delta(0, "input_json_delta", partial_json='{"b":2}'), *stops)
    assert streamed == [ToolCallBlock(id="t", name="f", arguments={"b": 2})]


def test_streamed_input_is_joined():
    call = start(0, "tool_use", id="t", name="f", input={})
    fragments = [delta(0, "input_json_delta", partial_json=text) for text in ('{"a"', ":1}")]
    assert content(call, *fragments) == [ToolCallBlock(id="t", name="f", arguments={"a": 1})]


def test_lost_event_does_not_touch_a_call_that_was_stopped():
    call = start(0, "tool_use", id="t", name="f", input={})
    body = wire.claude(call, stop(0), start(1, "tool_use", id="u", name="f", input={}))
    lost = body.replace(b"event: message_delta", b"data: {broken\n\nevent: message_delta")
    assert streams.run("anthropic", [lost]).meta.argument_states == {"u": ArgumentState.TRUNCATED}


def test_server_tools_are_kept_whole_with_their_streamed_input():
    blocks = content(
        start(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"q":'),
        delta(0, "input_json_delta", partial_json='"x"}'),
        stop(0),
        start(1, "web_search_tool_result", content=[]),
        stop(1),
    )
    raw = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    result = {"type": "web_search_tool_result", "content": []}
    assert blocks == [
        OpaqueBlock(provider="anthropic", raw=raw),
        OpaqueBlock(provider="anthropic", raw=result),
    ]


def test_summary_of_a_compaction_is_kept_and_never_shown():
    seen = run(
        start(0, "compaction", content=None),
        delta(0, "compaction_delta", content="so "),
        delta(0, "compaction_delta", content="far", encrypted_content="E"),
        delta(0, "compaction_delta"),
    )
    assert isinstance(seen.end, Done)
    raw = {"type": "compaction", "content": "so far", "encrypted_content": "E"}
    assert seen.end.content == [OpaqueBlock(provider="anthropic", raw=raw)]
    assert seen.joined("text_delta") == ""


def test_message_may_hold_blocks_and_a_stop_reason_from_its_start():
    held = [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}, None]
    seen = run(content=held, stop_reason="tool_use", model=5)
    assert [event.raw_json_delta for event in seen.events if isinstance(event, ToolCallDelta)] == [
        "",
        '{"a":1}',
    ]
    assert seen.fields()[0]["model"] == "req-model"


def test_second_start_is_ignored_or_a_splice():
    def second(message: object) -> streams.Run:
        return run({"type": "message_start", "message": message})

    assert isinstance(second({"id": "m1"}).end, Done)
    assert isinstance(second(None).end, Done)
    spliced = second({"id": "m2"}).end
    assert isinstance(spliced, StreamFailed)
    assert spliced.reason.code == "message_sequence"


def test_second_start_without_an_id_is_ignored_where_the_first_had_none():
    start = {"type": "message_start", "message": {"role": "assistant"}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert isinstance(streams.run("anthropic", [wire.named(start, start, stop)]).end, Done)


def test_end_without_a_stop_reason_is_a_truncation():
    events = wire.named({"type": "content_block_start"}, {"type": "message_stop"})
    end = streams.run("anthropic", [events]).end
    assert isinstance(end, StreamFailed)
    assert end.reason.code == "stream_truncated"


def test_stop_without_a_message_is_enough():
    events = wire.named(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_delta"},
    )
    assert isinstance(streams.run("anthropic", [events]).end, Done)


def test_refusal_carries_its_details():
    details = {"type": "refusal", "category": "cyber"}
    last = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    seen = run(last, stop="refusal")
    assert isinstance(seen.end, Done)
    assert seen.end.stop_reason is StopReason.CONTENT_FILTER
    assert seen.meta.stop_details == details


def test_usage_is_merged_by_field_and_input_counts_the_cache():
    last = {
        "type": "message_delta",
        "usage": {
            "input_tokens": None,
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    }
    first = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    assert run(last, usage=first).meta.usage == {
        "input": 7,
        "output": 9,
        "reasoning": 4,
        "cache_read": 2,
        "total": 16,
    }


def test_cache_counts_without_input_are_no_input():
    assert run(usage={"cache_read_input_tokens": 2}).meta.usage == {"cache_read": 2}


def test_error_body_of_anthropic_is_read():
    body = wire.body({"type": "error", "error": {"type": "overloaded_error", "message": "m"}})
    end = streams.run("anthropic", [body]).end
    assert isinstance(end, StreamFailed)
    assert end.reason.code == "overloaded_error"
