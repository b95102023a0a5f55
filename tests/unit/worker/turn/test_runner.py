"""The loop around the rooms, over played ports and real rooms."""

import asyncio
import json
from typing import Any

import pytest

from shared.errors import EndpointError, Fenced
from shared.failures import Severity
from shared.recording import Received, read_recording
from shared.segments import Segment, TurnDone, TurnFailed
from shared.turns import CredentialSource, StopReason, Target, TurnOutcome, TurnState
from tests.support.turn_ports import (
    BREAK,
    GENEROUS,
    SILENCE,
    KeepingReporter,
    PlayedPools,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn
from worker.providers.requests import Endpoint
from worker.turn.ports import TimeLimits

ONE_TRY = TimeLimits(first_byte_s=5, between_chunks_s=5, whole_stream_s=5, turn_deadline_s=0.95)
"""The deadline comes before the first retry, which waits a second."""
QUICK = TimeLimits(first_byte_s=0.05, between_chunks_s=0.05, whole_stream_s=5, turn_deadline_s=0.95)
DONE = b"data: [DONE]\n\n"


def frame(**delta: object) -> bytes:
    finish = delta.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


FIRST = frame(role="assistant", content="First paragraph.\n\n")
SECOND = frame(content="Second one.")
END = frame(finish_reason="stop") + DONE


Answer = ScriptedResponse | EndpointError | object


class Case:
    """One run and what it wrote."""

    def __init__(
        self,
        *answers: Answer,
        limits: TimeLimits = GENEROUS,
        may_supersede: bool = False,
        records_always: bool = False,
        fence_at: int | None = None,
        **request: Any,
    ) -> None:
        self.provider = ScriptedProvider(*answers)
        self.reporter = KeepingReporter()
        self.outbox = RememberingOutbox(fence_at=fence_at)
        self.stopped = asyncio.Event()
        self.request = turn(**request)
        self.runner = runner(
            self.provider,
            self.reporter,
            limits=limits,
            records_always=records_always,
            may_supersede=may_supersede,
        )

    async def run(self) -> TurnOutcome:
        return (await self.runner.run(self.request, self.outbox, self.stopped)).outcome

    @property
    def end(self) -> TurnDone | TurnFailed:
        ((event, _),) = self.outbox.ends
        return event


async def test_a_whole_stream_becomes_segments_and_one_done():
    answer = ScriptedResponse([FIRST, SECOND, END])
    case = Case(answer)
    outcome = await case.run()
    assert case.outbox.texts == ["First paragraph.", "Second one."]
    assert case.end == TurnDone(count=2, stop_reason=StopReason.STOP)
    assert outcome.state is TurnState.DONE
    assert outcome.segments == 2
    assert outcome.first_byte_ms is not None
    assert outcome.first_segment_ms is not None
    assert case.reporter.reports == []
    assert case.outbox.recordings == []
    assert answer.is_closed


async def test_bytes_after_the_terminal_event_are_not_waited_for():
    case = Case(ScriptedResponse([FIRST, END, SILENCE]))
    await asyncio.wait_for(case.run(), 2)
    assert case.outbox.texts == ["First paragraph."]


async def test_the_key_goes_into_the_request_and_nowhere_else():
    case = Case(ScriptedResponse([FIRST, END]))
    await case.run()
    (request,) = case.provider.requests
    assert ("authorization", "Bearer sk-test-key-1") in [
        (name.lower(), value) for name, value in request.headers
    ]
    assert "sk-test-key-1" not in repr(request)
    assert "sk-test-key-1" not in request.url


async def test_an_empty_reply_is_asked_for_once_more():
    case = Case(ScriptedResponse([END]), ScriptedResponse([FIRST, END]))
    await case.run()
    assert case.outbox.texts == ["First paragraph."]
    (report,) = case.reporter.reports
    assert report.error_type == "empty_stream"
    metadata: Any = report.metadata
    assert metadata["emptyReply"]["finishReason"] == "stop"
    assert metadata["requestDiagnostics"]["lastRoles"] == ["user"]
    assert "hello" not in str(report.metadata)


async def test_a_reply_that_is_empty_twice_is_done_with_a_note_for_the_channel():
    case = Case(ScriptedResponse([END]), ScriptedResponse([END]))
    await case.run()
    assert case.end == TurnDone(count=0, stop_reason=StopReason.STOP, notes=("empty_reply",))


async def test_a_reply_that_spent_its_length_on_reasoning_is_not_asked_for_again():
    case = Case(ScriptedResponse([frame(finish_reason="length") + DONE]))
    await case.run()
    assert case.end == TurnDone(count=0, stop_reason=StopReason.LENGTH, notes=("empty_reply",))


async def test_a_stop_in_mid_stream_sends_what_was_held_and_closes_the_stream():
    answer = ScriptedResponse([FIRST, frame(content="Half a sen"), SILENCE])
    case = Case(answer)
    task = asyncio.create_task(case.run())
    await answer.reached.wait()
    case.stopped.set()
    outcome = await asyncio.wait_for(task, 0.1)
    assert outcome.state is TurnState.CANCELLED
    assert case.outbox.texts == ["First paragraph.", "Half a sen"]
    assert isinstance(case.end, TurnDone)
    assert case.end.state is TurnState.CANCELLED
    assert answer.is_closed
    assert case.reporter.reports == []


async def test_a_stop_before_the_headers_gives_up_the_request():
    case = Case(SILENCE)
    task = asyncio.create_task(case.run())
    await case.provider.asked.wait()
    case.stopped.set()
    outcome = await asyncio.wait_for(task, 0.1)
    assert outcome.state is TurnState.CANCELLED
    assert case.outbox.texts == []


FAILURES = {
    "refused connection": (EndpointError("ConnectionRefusedError"), "connection_refused"),
    "lost connection": (EndpointError("ReadError"), "connection_lost"),
    "connect timeout": (EndpointError("ConnectTimeout"), "network_timeout"),
    "rate limit": (
        ScriptedResponse([b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}'], 429),
        "rate_limited",
    ),
    "invalid key": (
        ScriptedResponse([b'{"error":{"message":"bad","code":"invalid_api_key"}}'], 401),
        "invalid_key",
    ),
    "not utf-8": (ScriptedResponse([b"\xff\xfe"], 500), "server_error"),
    "cut stream": (ScriptedResponse([FIRST, SECOND]), "stream_truncated"),
    "broken stream": (ScriptedResponse([FIRST, BREAK]), "connection_lost"),
    "error in the stream": (
        ScriptedResponse([FIRST, b'data: {"error":{"message":"x","code":"overloaded_error"}}\n\n']),
        "overloaded",
    ),
    "no stream at all": (ScriptedResponse([]), "empty_stream"),
}


@pytest.mark.parametrize(("answer", "cause"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_attempt_makes_one_report_one_recording_and_one_end(answer, cause):
    case = Case(answer, limits=ONE_TRY)
    outcome = await case.run()
    (report,) = case.reporter.reports
    assert isinstance(case.end, TurnFailed)
    assert report.error_type == cause == case.end.cause == outcome.cause
    assert case.end.count == len(case.outbox.segments) == report.segments_sent
    assert case.end.report_id == report.id
    assert case.end.headline == f"failure.{cause}:en"
    assert (report.turn_id, report.attempt, report.guild_id) == ("l1", 1, 7)
    assert report.endpoint_host == "model.invalid"
    assert outcome.state is TurnState.FAILED
    assert len(case.outbox.recordings) == 1


async def test_the_modal_finds_the_redacted_text_under_the_id_of_the_report():
    body = b'{"error":{"message":"key sk-test-key-1 is bad","code":"invalid_api_key"}}'
    case = Case(ScriptedResponse([body], 401))
    await case.run()
    (report,) = case.reporter.reports
    details = case.outbox.details[report.id]
    assert "is bad" in details.snippet
    assert "sk-test-key-1" not in details.snippet
    assert details.guild_id == case.request.route.guild_id


async def test_the_recording_of_a_failed_attempt_holds_the_bytes():
    case = Case(ScriptedResponse([FIRST, SECOND]))
    await case.run()
    entries = [e for e in read_recording(case.outbox.recordings[0]) if isinstance(e, Received)]
    assert [entry.data for entry in entries] == [FIRST, SECOND]


async def test_every_attempt_is_recorded_when_the_setting_says_so():
    case = Case(ScriptedResponse([FIRST, END]), records_always=True)
    await case.run()
    assert len(case.outbox.recordings) == 1


async def test_a_connection_that_breaks_after_the_answer_was_whole_is_no_failure():
    case = Case(ScriptedResponse([FIRST, frame(finish_reason="stop"), BREAK]))
    outcome = await case.run()
    assert outcome.state is TurnState.DONE
    assert case.outbox.texts == ["First paragraph."]


async def test_an_expected_failure_of_a_personal_key_is_a_warning():
    body = b'{"error":{"message":"bad","code":"invalid_api_key"}}'
    case = Case(ScriptedResponse([body], 401), credential_source=CredentialSource.PERSONAL)
    await case.run()
    (report,) = case.reporter.reports
    assert report.severity is Severity.WARNING


async def test_upstream_text_reaches_the_report_and_never_the_event():
    body = b'{"error":{"message":"user org-777 is over its limit","code":"rate_limit_exceeded"}}'
    case = Case(ScriptedResponse([body], 429), limits=ONE_TRY)
    await case.run()
    assert "over its limit" in case.reporter.reports[0].message
    assert "over its limit" not in repr(case.end)


SLOW = {
    "no headers": (SILENCE, QUICK, "network_timeout"),
    "no first byte": (ScriptedResponse([SILENCE]), QUICK, "network_timeout"),
    "silence after text": (ScriptedResponse([FIRST, SILENCE]), QUICK, "network_timeout"),
    "comments are silence": (
        ScriptedResponse([FIRST, b": keep-alive\n\n", SILENCE]),
        QUICK,
        "network_timeout",
    ),
    "whole stream": (
        ScriptedResponse([FIRST, SILENCE]),
        TimeLimits(first_byte_s=5, between_chunks_s=5, whole_stream_s=0.05, turn_deadline_s=10),
        "request_timeout",
    ),
    "turn deadline": (
        ScriptedResponse([FIRST, SILENCE]),
        TimeLimits(first_byte_s=5, between_chunks_s=5, whole_stream_s=5, turn_deadline_s=0.05),
        "request_timeout",
    ),
}


@pytest.mark.parametrize(("answer", "limits", "cause"), SLOW.values(), ids=SLOW)
async def test_a_silent_stream_trips_at_its_limit(answer, limits, cause):
    case = Case(answer, limits=limits)
    await asyncio.wait_for(case.run(), 2)
    assert case.reporter.reports[0].error_type == cause


async def test_a_hold_expires_by_tick_while_the_stream_is_silent():
    answer = ScriptedResponse([frame(content="A line that ends.\n"), SILENCE])
    case = Case(answer, delivery_mode="line")
    task = asyncio.create_task(case.run())
    await asyncio.wait_for(case.outbox.has_sent.wait(), 3)
    assert case.outbox.texts == ["A line that ends."]
    case.stopped.set()
    await task


async def test_a_provider_without_an_address_is_the_operators_failure():
    case = Case()
    pools = PlayedPools(Endpoint(base_url="http://model.invalid/v1"))
    pools.is_known = False
    case.runner.keys = pools
    await case.run()
    (report,) = case.reporter.reports
    assert report.error_type == "endpoint_not_found"
    assert report.endpoint_host is None
    assert report.severity is Severity.ERROR


async def test_a_revoked_credential_ends_the_turn_as_an_invalid_key():
    case = Case(credential="personal:5:rehearsal:main")
    outcome = await case.run()
    assert (outcome.state, outcome.cause) == (TurnState.FAILED, "invalid_key")
    assert {report.error_type for report in case.reporter.reports} == {"invalid_key"}


@pytest.mark.parametrize("steps", [[SILENCE], [FIRST, SILENCE]], ids=["first byte", "mid-stream"])
async def test_cancelled_it_closes_the_stream_and_writes_no_end(steps):
    answer = ScriptedResponse(steps)
    case = Case(answer)
    task = asyncio.create_task(case.run())
    await answer.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answer.is_closed
    assert case.outbox.ends == []
    assert case.reporter.reports == []


async def test_cancelled_before_the_headers_it_gives_up_the_request():
    case = Case(SILENCE)
    task = asyncio.create_task(case.run())
    await case.provider.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert case.outbox.ends == []
    assert len(asyncio.all_tasks()) == 1


async def test_a_fenced_worker_closes_the_stream_and_stays_silent():
    answer = ScriptedResponse([FIRST, SECOND, END])
    case = Case(answer, fence_at=1)
    with pytest.raises(Fenced):
        await case.run()
    assert answer.is_closed
    assert case.outbox.ends == []
    assert case.reporter.reports == []
    assert len(asyncio.all_tasks()) == 1


async def test_what_the_rooms_mended_is_logged_with_the_host(caplog):
    think = (
        b'data: {"provider":"Host","choices":[{"index":0,"delta":{"content":"<think>a</think>"}}]}'
    )
    case = Case(
        ScriptedResponse([think + b"\n\n", FIRST, END]),
        target=Target(provider="openrouter", model="m"),
    )
    with caplog.at_level("INFO", logger="worker.turn.streaming"):
        await case.run()
    (line,) = [record for record in caplog.records if record.message == "stream.mended"]
    assert "think_blocks" in str(vars(line))
    assert "Host" in str(vars(line))


class FullOutbox(RememberingOutbox):
    """A stream that is full after one segment, until the user stops the turn."""

    def __init__(self, stopped: asyncio.Event) -> None:
        super().__init__()
        self._stopped = stopped

    async def send(self, segment: Segment) -> bool:
        if segment.seq == 1:
            return await super().send(segment)
        self._stopped.set()
        return False


async def test_what_was_cut_at_its_end_by_a_stop_is_no_whole_reply():
    case = Case(ScriptedResponse([FIRST, SECOND, END]))
    case.outbox = FullOutbox(case.stopped)
    outcome = await case.run()
    assert case.outbox.texts == ["First paragraph."]
    assert (case.end.count, case.end.state) == (1, TurnState.CANCELLED)
    assert outcome.state is TurnState.CANCELLED
