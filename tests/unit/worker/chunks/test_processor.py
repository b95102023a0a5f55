"""Events to chunks: the mapping of each event, the end of a stream, holds and options."""

from typing import Any

import pytest

from shared.messages import ArgumentState, TextBlock, ToolCallBlock
from shared.turns import StopReason
from tests.support.chunks import Said, say, tool
from worker.chunks.processor import ChunkProcessor
from worker.chunks.types import (
    DoneChunk,
    ErrorChunk,
    FunctionCallChunk,
    TextChunk,
    Thought,
    ThoughtKind,
)
from worker.normalize.events import (
    Done,
    FaultReason,
    Start,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from worker.normalize.meta import Meta
from worker.normalize.partial_json import ArgumentText

KEY = "corp-internal-77-k3y-zzTop"
CALL = ToolCallBlock(id="c1", name="roll", arguments={"sides": 6}, thought_signature="sig")
Options = dict[str, Any]
USAGE: dict[str, int | float] = {"input": 3, "output": 4, "cost": 0}


def text(delta: str, index: int = 0) -> TextDelta:
    return TextDelta(index=index, delta=delta)


def thinking(delta: str, index: int = 0) -> ThinkingDelta:
    return ThinkingDelta(index=index, delta=delta)


def calling(index: int = 1) -> ToolCallDelta:
    return ToolCallDelta(
        index=index, id="c1", name="roll", raw_json_delta="", text=ArgumentText(), end=0
    )


def done(stop: StopReason = StopReason.STOP, *blocks: ToolCallBlock, usage: object = None) -> Done:
    return Done(stop_reason=stop, content=list(blocks), usage=usage or {})  # type: ignore[arg-type]  # USAGE or none


def failed(code: str, message: str = "") -> StreamFailed:
    return StreamFailed(reason=FaultReason(code=code, message=message))


def run(*events: StreamEvent, meta: Meta | None = None, **options: Any) -> Said:
    side = meta or Meta()
    given: Options = {"provider": "custom", "model": "m", "meta": lambda: side} | options
    return say(ChunkProcessor(**given), events)


def test_text_reasoning_and_the_end():
    said = run(Start(model="m", provider="p"), thinking("hm."), text("Hi"), done())
    assert said.chunks[:2] == [
        TextChunk(thoughts=(Thought(kind=ThoughtKind.RAW, content="hm."),)),
        TextChunk(content="Hi"),
    ]
    assert said.end == DoneChunk(
        metadata={
            "stop_reason": "stop",
            "raw_stop_reason": None,
            "usage": {},
            "reasoning_present": True,
            "response_id": None,
            "empty_reply": False,
        }
    )


def test_a_signature_alone_says_nothing():
    assert len(run(ThinkingDelta(index=0, delta="", signature="s"), text("Hi"), done()).chunks) == 2


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"provider": "google"}, ThoughtKind.SUMMARY),
        ({"provider": "deepseek"}, ThoughtKind.RAW),
        ({"provider": "google", "thoughts": ThoughtKind.RAW}, ThoughtKind.RAW),
    ],
)
def test_the_kind_of_thoughts_is_the_providers(options, kind):
    assert run(thinking("hm"), done(), **options).chunks[0].thoughts[0].kind is kind


def test_reasoning_in_tags_is_raw_at_any_provider():
    said = run(text("<think>hm</think>Hi"), done(), provider="google")
    assert said.chunks[0].thoughts == (Thought(kind=ThoughtKind.RAW, content="hm"),)
    assert said.metadata["diagnostics"] == {"think_blocks": 1}


def test_usage_comes_on_an_empty_text_before_the_end_and_a_cost_of_nothing_is_kept():
    said = run(text("Hi"), done(usage=USAGE))
    assert said.chunks[-2] == TextChunk(metadata={"usage": USAGE})
    assert said.metadata["usage"] == USAGE


def test_usage_before_a_failure_is_kept():
    said = run(text("Hi"), failed("stream_truncated"), meta=Meta(usage=USAGE))
    assert said.chunks[-2] == TextChunk(metadata={"usage": USAGE})
    assert said.metadata == {
        "stop_reason": "error",
        "raw_stop_reason": None,
        "usage": USAGE,
        "reasoning_present": False,
        "response_id": None,
    }


def test_calls_are_released_at_the_end_with_their_verdict():
    bad = ToolCallBlock(id="c2", name="roll", arguments={}, arguments_truncated=True)
    meta = Meta(argument_states={"c2": ArgumentState.INVALID})
    said = run(text("a"), calling(), done(StopReason.TOOL_USE, CALL, bad), meta=meta)
    assert [call.state for call in said.calls] == [ArgumentState.OK, ArgumentState.INVALID]
    assert (said.calls[0].args, said.calls[0].thought_signature) == ({"sides": 6}, "sig")
    assert said.chunks[-2] == FunctionCallChunk(call=said.calls[1])


def test_no_call_is_released_of_a_stream_that_failed_or_was_filtered():
    assert run(calling(), failed("stream_truncated")).calls == []
    said = run(text("a"), calling(), done(StopReason.CONTENT_FILTER, CALL))
    assert (said.calls, said.metadata["stop_reason"]) == ([], "content_filter")


def test_calls_of_the_prose_come_after_the_native_ones_and_make_a_tool_use_of_a_stop():
    options: Options = {"tools": [tool("roll", sides="integer")], "verbatim_tools": True}
    said = run(text("Go roll(sides=4)"), done(StopReason.STOP, CALL), **options)
    assert [call.args for call in said.calls] == [{"sides": 6}, {"sides": 4}]
    assert (said.text, said.metadata["stop_reason"]) == ("Go ", "tool_use")
    assert said.metadata["diagnostics"] == {"prose_calls": 1}
    assert run(text("roll("), thinking("x"), done(), **options).text == "roll("
    said = run(thinking("so I"), text("must do.Hello roll()"), done(), **options)
    assert (said.text, said.thoughts, len(said.calls)) == ("Hello ", "so Imust do.", 1)


def test_no_call_of_the_prose_runs_where_an_event_was_lost():
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    said = run(text("roll({})"), done(), meta=Meta(skipped=1), **options)
    assert [(call.name, call.state) for call in said.calls] == [("roll", ArgumentState.TRUNCATED)]


@pytest.mark.parametrize("options", [{"verbatim_tools": True}, {"tools": [tool("roll")]}])
def test_prose_is_not_searched_without_tools_or_flag(options):
    assert run(text("roll()"), done(), **options).text == "roll()"


@pytest.mark.parametrize(
    ("meta", "cause", "code"),
    [
        (Meta(raw_stop_reason="refusal"), "content_filter", "refusal"),
        (Meta(block_reason="PROHIBITED_CONTENT"), "prompt_blocked", "PROHIBITED_CONTENT"),
    ],
)
def test_a_filter_stop_without_text_is_an_error(meta, cause, code):
    end = run(text(" "), done(StopReason.CONTENT_FILTER), meta=meta).end
    assert isinstance(end, ErrorChunk)
    assert (end.error.cause, end.error.code, end.error.retryable) == (cause, code, False)
    assert (end.metadata or {})["stop_reason"] == "content_filter"


def test_a_refusal_in_words_is_an_answer():
    assert isinstance(run(text("I will not."), done(StopReason.CONTENT_FILTER)).end, DoneChunk)


@pytest.mark.parametrize(
    ("events", "empty"),
    [
        ([done()], True),
        ([text(" \n"), done()], True),
        ([thinking("hm"), done()], True),
        ([text("x"), done()], False),
        ([done(StopReason.TOOL_USE, CALL)], False),
    ],
)
def test_an_empty_reply_is_flagged(events, empty):
    assert run(*events).metadata["empty_reply"] is empty


def test_the_host_stands_on_every_chunk_once_it_is_known():
    meta = Meta(serving_provider="InvHost", raw_stop_reason="stop", response_id="r1")
    said = run(thinking("hm"), text("a"), done(StopReason.STOP, CALL, usage=USAGE), meta=meta)
    assert {chunk.serving_provider for chunk in said.chunks} == {"InvHost"}
    assert (said.metadata["raw_stop_reason"], said.metadata["response_id"]) == ("stop", "r1")


# ------------------------------------------------------------------------------------ failures


def error(said: Said) -> tuple[str, str, str | None]:
    end = said.end
    assert isinstance(end, ErrorChunk)
    return end.error.cause, end.error.message, end.error.serving_provider


def test_the_whole_error_body_is_classified():
    body = {
        "error": {"message": "slow down", "metadata": {"provider_name": "InvHost"}},
        "code": 429,
    }
    assert error(run(failed("429"), meta=Meta(error_body=body))) == (
        "rate_limited", "slow down", "InvHost",
    )  # fmt: skip


def test_a_host_that_the_error_does_not_name_is_filled_in():
    meta = Meta(error_body="Overloaded", serving_provider="Other")
    assert error(run(failed("error", "x"), meta=meta)) == ("overloaded", "Overloaded | x", "Other")


def test_a_fault_of_ours_is_told_from_the_same_word_upstream():
    own = Meta(error_body={"code": "stream_truncated", "message": "cut"})
    assert error(run(failed("stream_truncated", "cut"), meta=own))[0] == "stream_truncated"
    theirs = Meta(error_body={"code": "stream_truncated", "message": "cut", "status": 429})
    assert error(run(failed("stream_truncated", "cut"), meta=theirs))[0] == "rate_limited"


def test_a_key_in_an_error_is_redacted():
    meta = Meta(error_body={"error": f"bad {KEY}"})
    assert error(run(failed("x"), meta=meta, secrets=[KEY]))[1] == "bad [redacted:key]"


# ------------------------------------------------------------------------- blocks and holds


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([text("One."), text("Two.", 1)], "One.Two."),
        ([text("One."), calling(1), text("Two.", 2)], "One.\n\nTwo."),
        ([text("One."), thinking("hm", 1), text("Two.", 2)], "One.\n\nTwo."),
        ([text("One."), text("Two.", 2)], "One.\n\nTwo."),
        ([text("One. "), text("Two.", 2)], "One. Two."),
        ([text("One."), text(" Two.", 2)], "One. Two."),
        ([thinking("hm"), text("One.", 1)], "One."),
    ],
    ids=[
        "neighbours",
        "call",
        "reasoning",
        "silent block",
        "space before",
        "space behind",
        "first",
    ],
)
def test_text_blocks_that_something_parts_get_a_paragraph(events, shown):
    assert run(*events, done()).text == shown


def test_two_messages_of_one_reply_get_a_paragraph():
    meta = Meta(message_starts=[1])
    assert run(text("One."), text("Two.", 1), done(), meta=meta).text == "One.\n\nTwo."


def test_after_a_call_the_text_may_repeat_its_tail():
    again = text("crossed the bridge, late", 2)
    said = run(text("We crossed the bridge"), calling(), again, done())
    assert said.text == "We crossed the bridge, late"
    assert said.metadata["diagnostics"] == {"dropped_chars": 18}


def test_a_text_that_comes_whole_once_more_is_said_once():
    assert run(text("x" * 30), text("x" * 30 + "y"), done()).text == "x" * 30 + "y"


def test_an_orphan_closer_takes_back_what_later_guards_hold():
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    said = run(thinking("so I"), text("must do"), text("</think>Hi"), done(), **options)
    assert (said.text, said.thoughts) == ("Hi", "so Imust do")
    said = run(text("a"), text(" ro"), text("</think>Hi"), done(), **options)
    assert (said.text, said.thoughts) == ("a Hi", "ro")


def test_a_block_of_reasoning_ends_what_stood_before_it():
    said = run(thinking("I was figurin"), text("g it out"), text("<think>b</think>x.Y"), done())
    assert (said.text, said.thoughts) == ("g it outx.Y", "I was figurinb")


@pytest.mark.parametrize(
    ("held", "later", "shown"),
    [
        ("g it out then", "Hello. More.", "g it out then\n\nHello. More."),
        ("g it out.Hey", "you.", "Hey\n\nyou."),
        ("\n\n", "Hello.", "\n\nHello."),
        ("g ro", "ll({}) it", "g ro\n\nll({}) it"),
    ],
)
@pytest.mark.parametrize("reasoning", [" That is all.", " and so on"], ids=["ends", "goes on"])
def test_reasoning_ends_what_stood_before_it(held, later, shown, reasoning):
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    events: list[StreamEvent] = [thinking("I am figurin"), text(held, 1), thinking(reasoning, 2)]
    said = run(*events, *(text(char, 3) for char in later), done(), **options)
    assert said.text == shown


def test_reasoning_comes_after_the_text_that_it_ends():
    said = run(thinking("I am figurin"), text("g it out then", 1), thinking(" That is all.", 2))
    assert said.chunks[1] == TextChunk(content="g it out then")


def test_an_orphan_closer_leaves_alone_what_was_held_before_the_last_block():
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    said = run(text("ro<think>a</think>"), text("</think>b"), done(), **options)
    assert (said.text, said.thoughts) == ("rob", "a")


def test_diagnostics_are_there_where_something_was_found():
    assert "diagnostics" not in run(text("Hi"), done()).metadata
    meta = Meta(skipped=2)
    assert run(text("Hi"), done(), meta=meta).metadata["diagnostics"] == {"skipped_events": 2}


@pytest.mark.parametrize(
    ("before", "held", "after"),
    [
        ([text("ha")], text("haha"), "haha"),
        ([], text("a <thi"), "<thi"),
        ([thinking("so I")], text("must do"), "must do"),
        ([], text("go rol"), "rol"),
    ],
    ids=["dedup", "tags", "spill", "prose"],
)
def test_each_guard_lets_go_by_tick(before, held, after):
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    processor = ChunkProcessor(provider="p", model="m", **options)
    for event in [*before, held]:
        processor.feed(event)
    assert processor.tick(0.0) == []
    late = [chunk for now_s in (5.0, 10.0, 15.0, 20.0) for chunk in processor.tick(now_s)]
    assert "".join(chunk.content for chunk in late if isinstance(chunk, TextChunk)) == after


def test_after_the_end_nothing_comes():
    processor = ChunkProcessor(provider="p", model="m")
    processor.feed(done())
    assert processor.feed(text("late")) == []
    assert processor.tick(99.0) == []
    assert (processor.flush(), processor.flush()) == ([], [])
    with pytest.raises(RuntimeError, match="feed after flush"):
        processor.feed(text("late"))


def test_a_stopped_stream_gives_out_what_is_held_and_no_half_call():
    options: Options = {"tools": [tool("roll")], "verbatim_tools": True}
    assert run(text("a <thi"), **options).text == "a <thi"
    assert run(text("a roll({"), **options).chunks == [TextChunk(content="a ")]
    processor = ChunkProcessor(provider="p", model="m")
    processor.feed(text("ha"))
    processor.feed(text("haha"))
    assert processor.tick(0.0) == []
    assert processor.flush() == [TextChunk(content="haha")]
    assert processor.tick(9.0) == []


def test_done_content_is_read_for_calls_only():
    event = Done(stop_reason=StopReason.STOP, content=[TextBlock(text="not said")], usage={})
    assert run(event).text == ""
