import pytest

from shared.messages import ArgumentState, OpaqueBlock, TextBlock, ThinkingBlock, ToolCallBlock
from shared.turns import StopReason
from worker.normalize.events import (
    Done,
    FaultReason,
    Start,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    event_fields,
)
from worker.normalize.reply import MAX_ARGUMENT_CHARS, MAX_BLOCKS, MAX_CALLS, NAMELESS, Reply


def new(*tools: str) -> Reply:
    return Reply("acme", "m", frozenset(tools))


def end_of(reply: Reply) -> StreamEvent:
    return reply.take()[-1]


def test_start_comes_once_and_before_anything_else():
    reply = new()
    reply.text("a")
    reply.start("other")
    assert reply.take() == [Start(model="m", provider="acme"), TextDelta(index=0, delta="a")]


def test_block_opens_when_the_kind_changes():
    reply = new()
    reply.text("a")
    reply.text("b")
    reply.think("c", "sig")
    reply.text("d")
    reply.keep({"type": "x"})
    reply.done(StopReason.STOP)
    end = end_of(reply)
    assert isinstance(end, Done)
    assert end.content == [
        TextBlock(text="ab"),
        ThinkingBlock(thinking="c", thinking_signature="sig"),
        TextBlock(text="d"),
        OpaqueBlock(provider="acme", raw={"type": "x"}),
    ]


def test_nothing_comes_after_the_end():
    reply = new()
    reply.fail("code", "message")
    reply.fail("other", "message")
    reply.done(StopReason.STOP)
    reply.text("late")
    reply.announce(reply.open_call("c", "f"))
    assert reply.take() == [StreamFailed(reason=FaultReason(code="code", message="message"))]
    assert reply.take() == []


@pytest.mark.parametrize(
    ("deltas", "seen"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b"]),
        (["\ud83d", "x"], ["\ufffdx"]),
        (["a\ude00"], ["a\ufffd"]),
        (["a\ud83d"], ["a", "\ufffd"]),
    ],
)
def test_halves_of_a_pair_are_joined_across_deltas(deltas: list[str], seen: list[str]):
    for kind in ("text", "think"):
        reply = new()
        reply.ragged = True
        for delta in deltas:
            getattr(reply, kind)(delta)
        reply.done(StopReason.STOP)
        events = reply.take()
        texts = [e.delta for e in events if isinstance(e, TextDelta | ThinkingDelta)]
        assert texts == seen


def test_half_of_a_pair_at_the_end_of_arguments_is_replaced():
    reply = new()
    reply.ragged = True
    call = reply.open_call("c", "f")
    reply.arguments(call, '{"a":"\ud83d')
    reply.done(StopReason.STOP)
    assert call.arguments() == '{"a":"\ufffd'
    deltas = [e.raw_json_delta for e in reply.take() if isinstance(e, ToolCallDelta)]
    assert deltas == ['{"a":"', "\ufffd"]


def test_nul_is_dropped_everywhere_but_in_signatures():
    reply = new()
    reply.text("a\0b")
    reply.think("\0c", "s\0")
    reply.arguments(reply.open_call("c\0", "f\0"), '{"a":\0"\\u0000b"}')
    reply.done(StopReason.STOP)
    end = end_of(reply)
    assert isinstance(end, Done)
    assert end.content == [
        TextBlock(text="ab"),
        ThinkingBlock(thinking="c", thinking_signature="s\0"),
        ToolCallBlock(id="c", name="f", arguments={"a": "b"}),
    ]


@pytest.mark.parametrize(
    ("tools", "call_id", "name", "is_announced"),
    [
        ([], "c", "f", True),
        (["f"], "c", "f", True),
        (["f"], "", "f", False),
        (["full_name"], "c", "full", False),
        ([], "c", "", False),
    ],
)
def test_call_is_announced_when_its_name_is_certain(
    tools: list[str], call_id: str, name: str, is_announced: bool
):
    reply = new(*tools)
    call = reply.open_call(call_id, name)
    reply.arguments(call, "")
    assert call.announced is is_announced
    reply.arguments(call, "{")
    assert call.announced is bool(name)
    reply.done(StopReason.STOP)
    events = [event for event in reply.take() if isinstance(event, ToolCallDelta)]
    assert "".join(event.raw_json_delta for event in events) == "{"
    assert {event.name for event in events} == {name or NAMELESS}


def test_missing_and_taken_ids_are_synthesised_in_the_same_way_each_time():
    def ids() -> list[str]:
        reply = new()
        for call_id in ("", "c", "c"):
            reply.arguments(reply.open_call(call_id, "f"), "{}")
        return [call.id for call in reply.calls]

    first = ids()
    assert len(set(first)) == 3
    assert first[1] == "c"
    assert first == ids()


def test_stop_becomes_tool_use_only_where_the_model_was_not_cut():
    for stop, expected in [
        (StopReason.STOP, StopReason.TOOL_USE),
        (StopReason.LENGTH, StopReason.LENGTH),
        (StopReason.CONTENT_FILTER, StopReason.CONTENT_FILTER),
    ]:
        reply = new()
        reply.arguments(reply.open_call("c", "f"), "{}")
        reply.done(stop)
        end = end_of(reply)
        assert isinstance(end, Done)
        assert end.stop_reason is expected


def test_taint_marks_what_is_still_open():
    reply = new()
    closed, still_open = reply.open_call("a", "f"), reply.open_call("b", "f")
    closed.closed = True
    reply.taint()
    reply.done(StopReason.STOP)
    assert reply.meta.argument_states == {still_open.id: ArgumentState.TRUNCATED}


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_arguments_are_none_only_where_the_model_ended_by_itself(text: str):
    for stop in StopReason:
        reply = new()
        reply.arguments(reply.open_call("bare", "f"), text)
        reply.arguments(reply.open_call("whole", "f"), "{}")
        reply.done(stop)
        is_regular = stop in (StopReason.STOP, StopReason.TOOL_USE, StopReason.PAUSE)
        expected = {} if is_regular else {"bare": ArgumentState.TRUNCATED}
        assert reply.meta.argument_states == expected


def test_replaced_arguments_win_and_events_keep_what_they_said():
    reply = new()
    call = reply.open_call("c", "f")
    reply.arguments(call, '{"a":1')
    reply.replace_arguments(call, '{"b":2}')
    unannounced = reply.open_call("", "f")
    reply.replace_arguments(unannounced, '{"c":3}')
    reply.done(StopReason.STOP)
    events = [event for event in reply.take() if isinstance(event, ToolCallDelta)]
    assert [event.partial_args for event in events] == [{"a": 1}, {"c": 3}]
    assert call.finished().arguments == {"b": 2}


def too_many_calls(reply: Reply) -> None:
    for number in range(MAX_CALLS + 1):
        assert not reply.ended
        reply.open_call(str(number), "f")


def too_many_blocks(reply: Reply) -> None:
    for _ in range(MAX_BLOCKS + 1):
        assert not reply.ended
        reply.open_text()


def too_long_arguments(reply: Reply) -> None:
    call = reply.open_call("c", "f")
    reply.arguments(call, "x" * MAX_ARGUMENT_CHARS)
    assert not reply.ended
    reply.arguments(call, "x")


def too_long_replacement(reply: Reply) -> None:
    call = reply.open_call("c", "f")
    reply.arguments(call, "{")
    reply.replace_arguments(call, "x" * (MAX_ARGUMENT_CHARS + 1))


@pytest.mark.parametrize(
    "exceed", [too_many_calls, too_many_blocks, too_long_arguments, too_long_replacement]
)
def test_limits_end_the_stream(exceed):
    reply = new()
    exceed(reply)
    end = end_of(reply)
    assert isinstance(end, StreamFailed)
    assert end.reason.code == "limit_exceeded"


def test_error_keeps_usage_and_names_the_host():
    reply = new()
    reply.count({"input": 3, "output": 4, "cost": 0, "cache_read": None})
    error = {"code": 502, "message": "m", "metadata": {"provider_name": "Host"}}
    reply.fail_with(error)
    assert reply.meta.usage == {"input": 3, "output": 4, "total": 7, "cost": 0}
    assert reply.meta.serving_provider == "Host"
    assert reply.meta.error_body == error


def test_host_that_was_known_before_the_error_stays():
    reply = new()
    reply.meta.serving_provider = "Host"
    reply.fail_with({"metadata": {"provider_name": "Other"}})
    assert reply.meta.serving_provider == "Host"


def test_ragged_meta_is_clean_at_the_end():
    reply = new()
    reply.ragged = True
    reply.meta.raw_stop_reason = "st\ud83d"
    reply.think("", "\ud83d")
    reply.text("a").signature = "s\0\ude00"
    reply.done(StopReason.STOP)
    assert reply.meta.raw_stop_reason == "st\ufffd"
    end = end_of(reply)
    assert isinstance(end, Done)
    assert end.content == [
        ThinkingBlock(thinking="", thinking_signature="\ufffd"),
        TextBlock(text="a", text_signature="s\0\ufffd"),
    ]


def test_events_are_equal_by_what_they_say():
    def delta(*texts: str) -> list[ToolCallDelta]:
        reply = new()
        call = reply.open_call("c", "f")
        for text in texts:
            reply.arguments(call, text)
        return [event for event in reply.take() if isinstance(event, ToolCallDelta)]

    assert delta("{", "}") == delta("{", "}")
    assert delta("{", "}")[0] == delta("{", '"a":1}')[0]
    assert delta("{", "}")[1] != delta("{", '"a":1}')[1]
    assert len({*delta("{"), *delta("{")}) == 1
    assert delta("{")[0] != "something else"
    assert event_fields(delta('{"a":1')[0]) == {
        "type": "toolcall_delta",
        "index": 0,
        "id": "c",
        "name": "f",
        "raw_json_delta": '{"a":1',
        "partial_args": {"a": 1},
    }
