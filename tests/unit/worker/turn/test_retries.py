"""What follows a failed attempt: the exact sequence of requests, segments and reports."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from shared.segments import TurnDone, TurnFailed
from shared.turns import Sampling, Target, TurnOutcome, TurnState
from tests.support.turn_ports import (
    KeepingReporter,
    PlayedPools,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn
from worker.providers.requests import Endpoint

WHOLE = [
    b'data: {"choices":[{"index":0,"delta":{"content":"The answer."}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
]
HALF = [b'data: {"choices":[{"index":0,"delta":{"content":"Half an answer.\\n\\n"}}]}\n\n']
AT_ONCE = (("retry-after", "0"),)
FALLBACK = Target(provider="other", model="second")


def throttled(headers: tuple[tuple[str, str], ...] = AT_ONCE) -> ScriptedResponse:
    body = b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}'
    return ScriptedResponse([body], 429, headers)


class Case:
    def __init__(
        self, *answers: ScriptedResponse, may_supersede: bool = True, **request: Any
    ) -> None:
        self.provider = ScriptedProvider(*answers)
        self.reporter = KeepingReporter()
        self.outbox = RememberingOutbox()
        self.stopped = asyncio.Event()
        self.request = turn(**request)
        self.runner = runner(self.provider, self.reporter, may_supersede=may_supersede)

    async def run(self) -> TurnOutcome:
        return (await self.runner.run(self.request, self.outbox, self.stopped)).outcome

    @property
    def bodies(self) -> list[dict[str, object]]:
        return [json.loads(request.body) for request in self.provider.requests]

    @property
    def end(self) -> TurnDone | TurnFailed:
        ((event, _),) = self.outbox.ends
        return event


async def test_a_throttled_request_is_sent_again_when_the_provider_says():
    case = Case(throttled(), ScriptedResponse(WHOLE))
    outcome = await case.run()
    assert outcome.state is TurnState.DONE
    assert case.outbox.texts == ["The answer."]
    assert [segment.attempt for segment in case.outbox.segments] == [2]
    assert [report.attempt for report in case.reporter.reports] == [1]
    assert case.reporter.reports[0].shown is False


async def test_a_request_is_not_repeated_for_ever():
    case = Case(*(throttled() for _ in range(9)))
    await case.run()
    assert len(case.provider.requests) == 4
    assert [report.attempt for report in case.reporter.reports] == [1, 2, 3, 4]
    assert [report.shown for report in case.reporter.reports] == [False, False, False, True]
    assert isinstance(case.end, TurnFailed)


async def test_the_next_model_of_the_chain_answers():
    case = Case(
        ScriptedResponse([b'{"error":{"code":"model_not_found","message":"no"}}'], 404),
        ScriptedResponse(WHOLE),
        fallbacks=(FALLBACK,),
    )
    await case.run()
    assert [body["model"] for body in case.bodies] == ["plain", "second"]
    assert isinstance(case.end, TurnDone)


async def test_a_key_that_is_refused_is_never_sent_again_to_the_same_model():
    case = Case(ScriptedResponse([b'{"error":{"code":"invalid_api_key"}}'], 401))
    await case.run()
    assert len(case.provider.requests) == 1
    assert isinstance(case.end, TurnFailed)


async def test_what_a_failed_attempt_showed_is_superseded():
    case = Case(ScriptedResponse(HALF), ScriptedResponse(WHOLE), fallbacks=(FALLBACK,))
    await case.run()
    assert case.outbox.texts == ["The answer."]
    assert case.end == TurnDone(count=1, notes=("fallback",))


async def test_shown_text_stays_where_the_setting_says_notice():
    case = Case(ScriptedResponse(HALF), may_supersede=False, fallbacks=(FALLBACK,))
    await case.run()
    assert case.outbox.texts == ["Half an answer."]
    assert isinstance(case.end, TurnFailed)
    assert case.end.count == 1


async def test_a_cap_that_the_account_affords_is_tried_once():
    body = (
        b'{"error":{"code":402,"message":"This request requires more credits, or fewer '
        b'max_tokens. You requested up to 2048 tokens, but can only afford 300."}}'
    )
    case = Case(
        ScriptedResponse([body], 402),
        ScriptedResponse(WHOLE),
        sampling=Sampling(max_tokens=2048),
        target=Target(provider="openrouter", model="m"),
    )
    await case.run()
    assert [body["max_tokens"] for body in case.bodies] == [2048, 300]
    assert isinstance(case.end, TurnDone)


async def test_a_parameter_that_is_refused_is_left_out_once():
    body = (
        b'{"error":{"message":"Unsupported parameter: \'temperature\' is not supported with '
        b'this model.","type":"invalid_request_error","param":"temperature",'
        b'"code":"unsupported_parameter"}}'
    )
    case = Case(
        ScriptedResponse([body], 400),
        ScriptedResponse(WHOLE),
        sampling=Sampling(temperature=0.5),
    )
    await case.run()
    assert ["temperature" in body for body in case.bodies] == [True, False]
    assert isinstance(case.end, TurnDone)


async def test_a_stop_during_the_wait_for_a_retry_ends_the_turn():
    case = Case(throttled((("retry-after", "9"),)))
    task = asyncio.create_task(case.run())
    while not case.reporter.reports:
        await asyncio.sleep(0)
    case.stopped.set()
    outcome = await asyncio.wait_for(task, 0.1)
    assert outcome.state is TurnState.CANCELLED


async def test_a_wait_beyond_the_deadline_is_not_begun():
    case = Case(throttled((("retry-after", "19"),)))
    case.runner.limits = msgspec.structs.replace(case.runner.limits, turn_deadline_s=5)
    await asyncio.wait_for(case.run(), 1)
    assert isinstance(case.end, TurnFailed)


REFUSED = b'{"error":{"message":"bad","code":"invalid_api_key"}}'
POOR = b'{"error":{"message":"Insufficient Balance","code":"invalid_request_error"}}'
PLACE = Endpoint(base_url="http://model.invalid/v1")


def pooled(case: Case, *keys: str) -> PlayedPools:
    pools = PlayedPools(PLACE, *keys)
    case.runner.keys = pools
    return pools


def used(case: Case) -> list[str]:
    headers = [dict(request.headers) for request in case.provider.requests]
    return [{name.lower(): text for name, text in one.items()}["authorization"] for one in headers]


ROTATING = {
    "rate limit": (ScriptedResponse([b'{"error":{"code":"rate_limit_exceeded"}}'], 429), 60.0),
    "named time": (throttled((("retry-after", "7"),)), 7.0),
    "refused key": (ScriptedResponse([REFUSED], 401), 300.0),
    "no balance": (ScriptedResponse([POOR], 402), 300.0),
}


@pytest.mark.parametrize(("answer", "rest_s"), ROTATING.values(), ids=ROTATING)
async def test_a_failure_of_the_key_changes_the_key_and_lets_the_old_one_rest(answer, rest_s):
    case = Case(answer, ScriptedResponse(WHOLE))
    pools = pooled(case, "sk-key-number-1", "sk-key-number-2")
    outcome = await case.run()
    assert outcome.state is TurnState.DONE
    assert used(case) == ["Bearer sk-key-number-1", "Bearer sk-key-number-2"]
    assert pools.rests == [("rehearsal", "sk-key-number-1", rest_s)]
    assert case.reporter.reports[0].key_id == "sk-key-number-1"


HEALTHY = {
    "overloaded": ScriptedResponse([b'{"error":{"code":"overloaded_error"}}'], 529, AT_ONCE),
    "cut stream": ScriptedResponse(HALF),
    "filter": ScriptedResponse([b'{"error":{"code":"content_filter"}}'], 400),
    "too long": ScriptedResponse([b'{"error":{"code":"context_length_exceeded"}}'], 400),
}


@pytest.mark.parametrize("answer", HEALTHY.values(), ids=HEALTHY)
async def test_a_failure_that_is_not_the_keys_lets_no_key_rest(answer):
    case = Case(answer, ScriptedResponse(WHOLE))
    pools = pooled(case, "sk-key-number-1", "sk-key-number-2")
    await case.run()
    assert pools.rests == []
    assert set(used(case)) == {"Bearer sk-key-number-1"}


async def test_when_no_key_is_left_the_next_model_is_asked():
    refused = [ScriptedResponse([REFUSED], 401) for _ in range(2)]
    case = Case(*refused, ScriptedResponse(WHOLE), fallbacks=(FALLBACK,))
    pools = pooled(case, "sk-key-number-1", "sk-key-number-2")
    outcome = await case.run()
    assert outcome.state is TurnState.DONE
    assert [body["model"] for body in case.bodies] == ["plain", "plain", "second"]
    assert [key for _, key, _ in pools.rests] == ["sk-key-number-1", "sk-key-number-2"]


async def test_a_key_that_is_refused_in_mid_reply_is_changed_and_the_reply_is_whole():
    late = [*HALF, b'data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n']
    case = Case(ScriptedResponse(late), ScriptedResponse(WHOLE))
    pooled(case, "sk-key-number-1", "sk-key-number-2")
    await case.run()
    assert case.outbox.texts == ["The answer."]
    assert len(set(used(case))) == 2


async def test_the_outcome_says_what_each_attempt_cost():
    counted = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
    late = [*HALF, counted, b'data: {"error":{"code":"rate_limit_exceeded"}}\n\n']
    case = Case(ScriptedResponse(late), ScriptedResponse([WHOLE[0], counted, WHOLE[1]]))
    pooled(case, "sk-key-number-1", "sk-key-number-2")
    outcome = await case.run()
    first, second = outcome.attempts
    assert (first.attempt, first.key_id, first.usage.input) == (1, "sk-key-number-1", 5)
    assert (second.attempt, second.key_id, second.usage.output) == (2, "sk-key-number-2", 2)
    assert second.usage == outcome.usage
