from typing import Any

import pytest

from shared.messages import ArgumentState, OpaqueBlock, TextBlock, ThinkingBlock, ToolCallBlock
from shared.turns import StopReason
from tests.support import streams, wire
from worker.normalize.events import Done, StreamFailed


def event(kind: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text} for text in texts]
    return item("message", content=parts, **fields)


def run(*events: dict[str, Any], tools: tuple[str, ...] = (), **response: Any) -> streams.Run:
    """A stream that completes with `response`."""
    first = event("created", response={"id": "r1", "model": "gpt-x"})
    last = event("completed", response={"status": "completed", **response})
    return streams.run("openai", [wire.named(first, *events, last)], tools=tools)


def content(*events: dict[str, Any], tools: tuple[str, ...] = (), **response: Any) -> list[Any]:
    end = run(*events, tools=tools, **response).end
    assert isinstance(end, Done)
    return end.content


def test_done_events_add_what_deltas_have_not_said():
    assert content(
        event("output_text.delta", delta="a"),
        event("output_text.done", text="ab"),
        event("output_text.done", text="contradiction"),
        event("output_text.delta", delta=None),
        event("output_text.done"),
        event("output_item.done", item=message("abc", id="m", phase="final_answer")),
    ) == [TextBlock(text="abc", item_id="m", phase="final_answer")]


def test_second_message_is_noted_as_a_beginning():
    seen = run(
        event("output_text.delta", delta="a"),
        event("output_text.delta", content_index=1, delta="b"),
        event("output_text.delta", index=1, delta="c"),
    )
    assert seen.meta.message_starts == [2]


def test_final_response_supplies_text_only_if_none_was_streamed():
    assert content(output=[message("a"), 5]) == [TextBlock(text="a")]
    streamed = event("output_text.delta", index=7, delta="a")
    assert content(streamed, output=[message("a")]) == [TextBlock(text="a")]


def test_refusals_are_visible_and_decide_the_stop_reason():
    refused = item("message", content=[{"type": "refusal", "refusal": "No."}, {"type": "new"}])
    for events in (
        [event("refusal.delta", delta="No."), event("refusal.delta", delta="")],
        [event("refusal.done", refusal="No.")],
        [event("output_item.done", item=refused)],
    ):
        seen = run(*events)
        assert isinstance(seen.end, Done)
        assert seen.joined("text_delta") == "No."
        assert seen.end.stop_reason is StopReason.CONTENT_FILTER


def test_reasoning_comes_as_summary_parts_or_raw_or_whole():
    parts = [{"text": "a"}, {"text": "b"}]
    for events in (
        [
            event("reasoning_summary_part.added", summary_index=0, part={"text": "a"}),
            event("reasoning_summary_part.added", summary_index=1, part={"text": "b"}),
        ],
        [event("output_item.done", item=item("reasoning", summary=parts))],
        [
            event("output_item.added", item=item("reasoning")),
            event("reasoning_text.delta", delta="a\n\nb"),
            event("reasoning_text.delta", delta=""),
            event("output_item.done", item=item("reasoning", content=parts)),
        ],
    ):
        assert content(*events) == [ThinkingBlock(thinking="a\n\nb")]


def test_encrypted_reasoning_is_the_signature_and_comes_once():
    encrypted = item("reasoning", id="rs", encrypted_content="E")
    done = event("output_item.done", item=encrypted)
    signature = '{"id":"rs","encrypted_content":"E"}'
    expected = [ThinkingBlock(thinking="", thinking_signature=signature)]
    assert content(done, done, output=[encrypted]) == expected
    assert content(output=[encrypted]) == expected
    streamed = event("reasoning_text.delta", index=3, delta="a")
    assert content(streamed, output=[encrypted]) == [ThinkingBlock(thinking="a")]


CALL = item("function_call", call_id="c", name="f", id="fc")
WHOLE = {**CALL, "arguments": '{"a":1}'}
BLOCK = ToolCallBlock(id="c", name="f", arguments={"a": 1}, item_id="fc")


@pytest.mark.parametrize(
    "events",
    [
        [event("output_item.added", item=CALL), event("function_call_arguments.done")],
        [event("output_item.added", item=CALL)],
        [event("output_item.added", index=4, item=CALL)],
        [],
        [
            event("output_item.added", item=CALL),
            event("function_call_arguments.delta", delta='{"b'),
            event("function_call_arguments.done", arguments='{"a":1}'),
        ],
        [event("output_item.added", item=WHOLE)],
        [
            event("output_item.added", item=CALL),
            event("function_call_arguments.delta", delta="1}"),
            event("function_call_arguments.delta", delta='{"a":'),
        ],
        [
            event("output_item.added", item=CALL),
            event("function_call_arguments.delta", delta='{"a":1}'),
            event("output_item.done", index=2, item=WHOLE),
        ],
        [
            event("function_call_arguments.delta", delta="lost"),
            event("function_call_arguments.done", arguments="lost"),
            event("output_item.done", item=WHOLE),
        ],
    ],
)
def test_arguments_are_completed_from_what_comes_later(events: list[dict[str, Any]]):
    assert content(*events, output=[WHOLE]) == [BLOCK]


def test_final_response_does_not_touch_a_call_of_another_id():
    events = [
        event("output_item.added", item=CALL),
        event("function_call_arguments.delta", delta='{"a":1}'),
    ]
    other = {**WHOLE, "call_id": "other", "arguments": '{"b":2}'}
    assert content(*events, output=[other]) == [BLOCK]


def test_calls_with_one_id_are_told_apart_by_position():
    other = {**WHOLE, "arguments": '{"a":2}'}
    added = [event("output_item.added", index=n, item=CALL) for n in range(2)]
    blocks = content(*added, output=[WHOLE, other])
    assert [block.arguments for block in blocks] == [{"a": 1}, {"a": 2}]
    assert len({block.id for block in blocks}) == 2


@pytest.mark.parametrize(
    "events",
    [
        [event("custom_tool_call_input.delta", delta="SELECT"), event("x")],
        [event("output_item.done", item=item("custom_tool_call", name="sql", input="SELECT"))],
    ],
)
def test_custom_call_is_the_clients_only_if_the_client_has_the_tool(events: list[dict[str, Any]]):
    added = event("output_item.added", item=item("custom_tool_call", call_id="c", name="sql"))
    (call,) = content(added, *events, tools=("sql",))
    assert call == ToolCallBlock(id="c", name="sql", arguments={"__input__": "SELECT"})
    (kept,) = content(added, *events)
    assert isinstance(kept, OpaqueBlock)


def test_final_response_supplies_the_input_of_a_custom_call():
    added = event("output_item.added", item=item("custom_tool_call", call_id="c", name="sql"))
    part = event("custom_tool_call_input.delta", delta="DROP ")
    whole = item("custom_tool_call", call_id="c", name="sql", input="DROP NOTHING")
    (call,) = content(added, part, output=[whole], tools=("sql",))
    assert call.arguments == {"__input__": "DROP NOTHING"}
    (call,) = content(output=[whole], tools=("sql",))
    assert call.arguments == {"__input__": "DROP NOTHING"}


@pytest.mark.parametrize("output", [[], [{"status": "incomplete", "input": "rm -r a"}]])
def test_custom_call_that_the_token_limit_cut_does_not_run(output: list[dict[str, Any]]):
    custom = item("custom_tool_call", call_id="c", name="sh")
    seen = run(
        event("output_item.added", item=custom),
        event("custom_tool_call_input.delta", delta="rm -r a"),
        tools=("sh",),
        status="incomplete",
        output=[custom | fields for fields in output],
    )
    assert isinstance(seen.end, Done)
    assert seen.end.stop_reason is StopReason.LENGTH
    assert seen.meta.argument_states == {"c": ArgumentState.TRUNCATED}


def test_server_items_are_kept_as_they_ended():
    search = item("web_search_call", id="ws", status="completed")
    added = event("output_item.added", item=item("web_search_call", id="ws"))
    done = event("output_item.done", item=search)
    expected = [OpaqueBlock(provider="openai", raw=search)]
    assert content(added, done, output=[search]) == expected
    assert content(done) == expected
    assert content(output=[search]) == expected


def test_items_that_do_not_match_what_was_opened_are_dropped():
    seen = run(
        event("output_item.added", item=item("reasoning")),
        event("output_item.done", item=item("web_search_call")),
        event("output_item.done", item={}),
        event("output_item.added", index=1, item=item("message")),
        event("custom_tool_call_input.delta", index=9, delta="x"),
        event("content_part.added"),
        event("sparkle.delta"),
    )
    assert isinstance(seen.end, Done)
    assert seen.end.content == [ThinkingBlock(thinking="")]
    assert seen.meta.unknown == 1


def test_citations_are_collected_on_their_text():
    note = {"type": "url_citation"}
    assert content(
        event("output_text.delta", content_index=1, delta="a"),
        event("output_text.annotation.added", content_index=1, annotation=note),
    ) == [TextBlock(text="a", citations=[note])]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", StopReason.LENGTH),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("new", StopReason.UNKNOWN),
        (None, StopReason.LENGTH),
    ],
)
def test_incomplete_response_says_why(reason: str | None, expected: StopReason):
    details = None if reason is None else {"reason": reason}
    for kind in ("incomplete", "completed"):
        status = "incomplete" if kind == "completed" else "x"
        last = event(kind, response={"status": status, "incomplete_details": details})
        end = streams.run("openai", [wire.named(last)]).end
        assert isinstance(end, Done)
        assert end.stop_reason is expected


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (event("failed", response={"error": {"code": "c", "message": "m"}}), "c"),
        (event("failed", response={"incomplete_details": {"reason": "r"}}), "r"),
        (event("failed"), "failed"),
        (event("cancelled"), "cancelled"),
        (event("completed", response={"status": "failed"}), "failed"),
        ({"type": "error", "error": {"code": "c"}}, "c"),
        ({"type": "error", "code": "c", "message": "m"}, "c"),
        ({"type": "error", "error": "words", "code": "c"}, "c"),
    ],
)
def test_failures_end_the_stream(last: dict[str, Any], code: str):
    usage = {"input_tokens": 1, "output_tokens_details": [], "input_tokens_details": None}
    first = event("created", response={"usage": usage})
    end = streams.run("openai", [wire.named(first, last)]).end
    assert isinstance(end, StreamFailed)
    assert end.reason.code == code


def test_event_name_stands_in_for_a_missing_type():
    body = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n'
    assert streams.run("openai", [body]).joined("text_delta") == "a"


def test_usage_of_the_final_response():
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    assert run(usage=usage).meta.usage == {
        "input": 10,
        "output": 5,
        "reasoning": 1,
        "cache_read": 3,
        "cache_write": 2,
        "total": 15,
    }
