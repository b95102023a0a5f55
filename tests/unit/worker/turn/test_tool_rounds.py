"""Tool rounds: the sequence of requests, what the model hears, and what may never happen."""

import asyncio
import json

import msgspec
import pytest

from shared.errors import Fenced
from shared.messages import TextBlock
from shared.recording import Asked, Carried, Dropped, Received, read_recording
from shared.segments import TurnDone, TurnFailed
from shared.turns import StopReason, Target, TurnState, Usage
from tests.support.tool_case import ToolCase, call, calling, saying
from tests.support.turn_ports import SILENCE, ScriptedResponse
from worker.chunks.types import FunctionCall
from worker.turn.pipeline import pipeline_for
from worker.turn.ports import TimeLimits
from worker.turn.results import LABEL, MAX_RESULT_CHARS, NO_BUDGET
from worker.turn.tool_rounds import ToolLimits, ToolRounds

ECHO = call("echo", '{"text": "a result"}')
AGAIN = ScriptedResponse([b'{"error":{"message":"busy","code":"overloaded_error"}}'], 529)


async def test_a_call_is_run_and_its_result_asked_about():
    case = ToolCase(calling(ECHO, say="Let me look."), saying("Found it."))
    outcome = await case.run()
    assert case.outbox.texts == ["Let me look.", "Found it."]
    assert [segment.seq for segment in case.outbox.segments] == [1, 2]
    assert case.end == TurnDone(count=2, stop_reason=StopReason.STOP)
    assert (outcome.rounds, outcome.tool_calls) == (2, 1)
    user, answer, result = case.bodies[1]["messages"]
    assert user["role"] == "user"
    assert answer["content"] == "Let me look."
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert result["content"] == f"{LABEL.format(name='echo')}\na result"
    assert case.outbox.tools_noted == 1


async def test_the_tool_knows_for_whom_it_runs():
    case = ToolCase(calling(ECHO), saying("Done."))
    await case.run()
    ((name, args, context),) = case.tools.ran
    assert (name, args) == ("echo", {"text": "a result"})
    assert (context.turn_id, context.guild_id, context.locale) == ("l1", 7, "en")


async def test_the_offered_tools_stand_in_every_request():
    case = ToolCase(calling(ECHO), saying("Done."), allowed=("echo", "count"))
    await case.run()
    for body in case.bodies:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["count", "echo"]


async def test_without_an_allowed_tool_none_is_offered_and_a_call_is_refused():
    case = ToolCase(calling(ECHO), saying("Then without."), allowed=())
    await case.run()
    assert "tools" not in case.bodies[0]
    assert case.tools.ran == []
    assert case.outbox.tools_noted == 0
    assert case.results == ["No tools are available, so nothing was executed. Answer without them."]
    assert case.outbox.texts == ["Then without."]


async def test_parallel_calls_run_together_and_are_answered_in_order():
    calls = [call("count", json.dumps({"n": n}), id=f"c{n}", index=n) for n in range(6)]
    case = ToolCase(calling(*calls), saying("Done."), tool_limits=ToolLimits(at_once=3))
    await case.run()
    assert [json.loads(text.partition("\n")[2])["n"] for text in case.results] == list(range(6))
    assert case.tools.most_at_once == 3


async def test_two_calls_of_one_id_are_answered_each():
    """The normalizer gives every call an id of its own; nothing here depends on it."""
    case = ToolCase()
    rounds = ToolRounds(
        msgspec.structs.replace(case.request, tools=case.tools.box().offered(7)),
        tools=case.tools.box(),
        outbox=case.outbox,
        clock=case.runner.clock,
        stopped=case.stopped,
        deadline_s=case.runner.clock.monotonic_s() + 5,
        limits=ToolLimits(),
    )
    calls = [FunctionCall(id="", name="echo", args={"text": text}) for text in ("left", "right")]
    calls.insert(1, FunctionCall(id="", name="bake", args={}))
    answers = await rounds.answer(calls)
    assert answers is not None
    texts = [block.text for one in answers for block in one.content if isinstance(block, TextBlock)]
    assert [text.split("\n")[-1][:16] for text in texts] == ["left", "There is no tool", "right"]


REFUSED = {
    "cut arguments": (call("echo", '{"text": "a re'), "cut off"),
    "no JSON": (call("echo", "text is a result"), "not valid JSON"),
    "no object": (call("echo", "[1]"), "not an object"),
    "unknown tool": (call("bake", "{}"), "no tool of this name"),
    "wrong type": (call("echo", '{"text": 5}'), "$.text: 5 is not of type 'string'"),
    "unknown argument": (call("echo", '{"txt": "x"}'), "'txt' was unexpected"),
}


@pytest.mark.parametrize(("bad", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_call_that_must_not_run_is_answered_and_not_run(bad, words):
    case = ToolCase(calling(bad), saying("I see."))
    await case.run()
    assert case.tools.ran == []
    assert case.outbox.tools_noted == 0
    (text,) = case.results
    assert words in text
    assert "executed" in text
    assert isinstance(case.end, TurnDone)


FAILING = {
    "crash": ("crash", "The tool failed: crashed."),
    "its own word": ("refuse", "The tool failed: rate_limited, status 429."),
}


@pytest.mark.parametrize(("name", "words"), FAILING.values(), ids=FAILING)
async def test_a_failure_is_told_as_cause_and_status_never_as_its_message(name, words):
    case = ToolCase(calling(call(name)), saying("It failed."))
    await case.run()
    (text,) = case.results
    assert text.startswith(words)
    assert "hunter2" not in json.dumps(case.bodies)
    assert isinstance(case.end, TurnDone)


async def test_a_slow_tool_is_cancelled_at_its_limit():
    case = ToolCase(
        calling(call("slow"), call("echo", id="c2", index=1)),
        saying("Too slow."),
        tool_limits=ToolLimits(call_s=0.02),
    )
    await case.run()
    assert case.tools.cancelled == 1
    assert "timeout" in case.results[0]
    assert "nothing" in case.results[1]


BRIEF = TimeLimits(first_byte_s=5, between_chunks_s=5, whole_stream_s=5, turn_deadline_s=0.2)


@pytest.mark.parametrize("limits", [None, BRIEF], ids=["time for tools", "turn deadline"])
async def test_all_tools_of_a_turn_end_in_time(limits):
    case = ToolCase(
        calling(call("slow")),
        saying("Too slow."),
        tool_limits=ToolLimits(all_s=0.02 if limits is None else 60),
        **({} if limits is None else {"limits": limits}),
    )
    await asyncio.wait_for(case.run(), 3)
    assert case.tools.cancelled == 1


async def test_a_long_result_is_cut_and_says_so():
    case = ToolCase(calling(call("long")), saying("Long."))
    await case.run()
    (text,) = case.results
    assert text.endswith(f"[Cut here: {MAX_RESULT_CHARS} of 20000 characters.]")
    assert len(text) < MAX_RESULT_CHARS + 200


SPENT = {
    "rounds": ToolLimits(rounds=2),
    "calls": ToolLimits(calls=2),
    "failures": ToolLimits(failures_in_a_row=2),
    "time": ToolLimits(all_s=0.0),
}


@pytest.mark.parametrize("limits", SPENT.values(), ids=SPENT)
async def test_a_model_that_never_stops_calling_is_told_and_then_ended(limits):
    name = "crash" if limits.failures_in_a_row == 2 else "echo"
    case = ToolCase(*[calling(call(name)) for _ in range(8)], tool_limits=limits)
    outcome = await case.run()
    assert case.results[-1] == NO_BUDGET
    assert isinstance(case.end, TurnFailed)
    assert case.end.cause == "limit_exceeded" == outcome.cause
    assert len(case.tools.ran) <= 2
    (report,) = case.reporter.reports
    assert report.error_type == "limit_exceeded"


async def test_calls_beyond_the_budget_of_one_round_are_refused_and_the_others_run():
    calls = [call("count", f'{{"n": {n}}}', id=f"c{n}", index=n) for n in range(3)]
    case = ToolCase(calling(*calls), saying("Done."), tool_limits=ToolLimits(calls=2))
    await case.run()
    assert len(case.tools.ran) == 2
    assert case.results[2] == NO_BUDGET


async def test_usage_is_the_sum_of_the_rounds():
    first, second = ({"prompt_tokens": n, "completion_tokens": 1} for n in (10, 20))
    case = ToolCase(calling(ECHO, usage=first), saying("Done.", usage=second))
    outcome = await case.run()
    assert outcome.usage == Usage(input=30, output=2, total=32)


async def test_a_half_sentence_before_a_call_is_kept_for_the_model_and_not_shown():
    case = ToolCase(calling(ECHO, say="First this. And then I"), saying("Found it."))
    await case.run()
    assert case.outbox.texts == ["First this.", "Found it."]
    assert case.bodies[1]["messages"][1]["content"] == "First this. And then I"


async def test_a_failed_round_is_asked_again_and_its_tools_are_not_run_twice():
    answers = (calling(ECHO, say="Let me look."), AGAIN, saying("Found it."))
    case = ToolCase(*answers)
    outcome = await case.run()
    assert len(case.tools.ran) == 1
    assert case.bodies[1]["messages"] == case.bodies[2]["messages"]
    assert case.outbox.token.attempt == 2
    assert case.outbox.texts == ["Let me look.", "Found it."]
    assert {segment.attempt for segment in case.outbox.segments} == {2}
    assert case.end == TurnDone(count=2, stop_reason=StopReason.STOP)
    assert outcome.state is TurnState.DONE
    assert [report.error_type for report in case.reporter.reports] == ["overloaded"]


async def test_where_shown_text_must_stay_a_failed_round_ends_the_turn():
    case = ToolCase(calling(ECHO, say="Let me look."), AGAIN, may_supersede=False)
    await case.run()
    assert isinstance(case.end, TurnFailed)
    assert case.end.count == 1


async def test_a_stop_while_a_tool_runs_cancels_it():
    case = ToolCase(calling(call("slow"), say="One moment."))
    task = asyncio.create_task(case.run())
    await case.tools.started.wait()
    case.stopped.set()
    outcome = await asyncio.wait_for(task, 1)
    assert outcome.state is TurnState.CANCELLED
    assert case.tools.cancelled == 1
    assert case.outbox.texts == ["One moment."]
    assert len(asyncio.all_tasks()) == 1


async def test_cancelled_while_a_tool_runs_it_cancels_the_tool_and_writes_no_end():
    case = ToolCase(calling(call("slow")))
    task = asyncio.create_task(case.run())
    await case.tools.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert case.tools.cancelled == 1
    assert case.outbox.ends == []
    assert len(asyncio.all_tasks()) == 1


async def test_a_fenced_worker_starts_no_tool():
    case = ToolCase(calling(ECHO))
    case.outbox.fences_tools = True
    with pytest.raises(Fenced):
        await case.run()
    assert case.tools.ran == []


async def test_a_silent_stream_trips_in_the_second_round_too():
    quick = TimeLimits(first_byte_s=0.1, between_chunks_s=0.1, whole_stream_s=5, turn_deadline_s=1)
    case = ToolCase(calling(ECHO), ScriptedResponse([SILENCE]), limits=quick)
    await asyncio.wait_for(case.run(), 3)
    assert case.reporter.reports[0].error_type == "network_timeout"


async def test_the_recording_plays_the_rounds_of_an_attempt_again():
    case = ToolCase(
        calling(ECHO, say="Let me look."), AGAIN, saying("Found it."), records_always=True
    )
    await case.run()
    first, second = (list(read_recording(one)) for one in case.outbox.recordings)
    assert [type(entry) for entry in first].count(Asked) == 2
    assert sum(isinstance(entry, Received) for entry in first) == 4
    assert Carried(text="Let me look.", trims=True) in second
    (asked,) = [entry for entry in second if isinstance(entry, Asked)]
    pipeline = pipeline_for(case.request, asked.target, 2)
    played = [segment for entry in second for segment in pipeline.play(entry)]
    assert [*played, *pipeline.flush()] == case.outbox.unmarked


async def test_a_recording_of_two_rounds_gives_the_same_segments():
    case = ToolCase(calling(ECHO, say="One. And"), saying("Two."), records_always=True)
    await case.run()
    (recording,) = case.outbox.recordings
    entries = list(read_recording(recording))
    (target,) = {entry.target for entry in entries if isinstance(entry, Asked)}
    pipeline = pipeline_for(case.request, target, 1)
    played = [segment for entry in entries for segment in pipeline.play(entry)]
    played += pipeline.play(Dropped(entries=1))
    assert [*played, *pipeline.flush()] == case.outbox.unmarked


def test_an_answer_without_its_end_has_no_place_in_a_history():
    request = ToolCase().request
    with pytest.raises(RuntimeError):
        pipeline_for(request, request.target, 1).answer(request.target)


async def test_a_call_in_the_prose_of_a_custom_endpoint_goes_back_as_a_call():
    prose = saying('Let me see.\n\necho({"text": "a result"})')
    case = ToolCase(prose, saying("Found it."), target=Target(provider="my-box", model="m"))
    outcome = await case.run()
    assert outcome.tool_calls == 1
    assert case.outbox.texts == ["Let me see.", "Found it."]
    _, answer, result = case.bodies[1]["messages"]
    assert "echo" not in answer["content"]
    (sent,) = answer["tool_calls"]
    assert sent["function"]["name"] == "echo"
    assert json.loads(sent["function"]["arguments"]) == {"text": "a result"}
    assert result["tool_call_id"] == sent["id"]


async def test_a_paused_answer_is_continued_a_bounded_number_of_times():
    paused = [_paused(n) for n in range(1, 5)]
    case = ToolCase(*paused, target=Target(provider="anthropic", model="claude"))
    await case.run()
    assert len(case.provider.requests) == 4
    assert case.outbox.texts == ["Part 1.", "Part 2.", "Part 3.", "Part 4."]
    assert isinstance(case.end, TurnDone)
    assert case.end.stop_reason is StopReason.PAUSE
    assert case.bodies[1]["messages"][-1]["role"] == "assistant"


def _paused(number: int) -> ScriptedResponse:
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": f"Part {number}."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    return ScriptedResponse([f"data: {json.dumps(event)}\n\n".encode() for event in events])


def _citing() -> ScriptedResponse:
    cite = {"type": "web_search_result_location", "url": "https://a.example/", "title": "A page"}
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "It rains.\n\n```\nopen"},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "citations_delta", "citation": cite},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    return ScriptedResponse([f"data: {json.dumps(event)}\n\n".encode() for event in events])


async def test_cited_pages_stand_in_one_line_under_the_reply():
    case = ToolCase(_citing(), target=Target(provider="anthropic", model="claude"))
    await case.run()
    assert case.outbox.texts == [
        "It rains.",
        "```\nopen\n```",
        "-# reply.sources:en [A page](<https://a.example/>)",
    ]


async def test_no_tool_is_started_after_a_stop():
    case = ToolCase(calling(ECHO))
    rounds = ToolRounds(
        msgspec.structs.replace(case.request, tools=case.tools.box().offered(7)),
        tools=case.tools.box(),
        outbox=case.outbox,
        clock=case.runner.clock,
        stopped=case.stopped,
        deadline_s=case.runner.clock.monotonic_s() + 5,
        limits=ToolLimits(),
    )
    case.stopped.set()
    assert await rounds.answer([FunctionCall(id="", name="echo", args={"text": "x"})]) is None
    assert (case.tools.ran, case.outbox.tools_noted) == ([], 0)
