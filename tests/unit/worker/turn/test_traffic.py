"""The breaker and the retry budget of the fleet: what a turn does when it may not ask."""

import json
from typing import Any

from shared.causes import Cause
from shared.segments import TurnDone, TurnFailed
from shared.turns import Target, TurnState
from tests.support.tool_case import ToolCase, call, calling, frame, saying
from tests.support.turn_ports import OpenRoads, ScriptedResponse

SECOND = Target(provider="other", model="second")
THIRD = Target(provider="other", model="third")
AT_ONCE = (("retry-after", "0"),)


def case_of(*answers: object, **more: Any) -> tuple[ToolCase, OpenRoads]:
    case, roads = ToolCase(*answers, **more), OpenRoads()
    case.runner.traffic = roads
    return case, roads


def busy() -> ScriptedResponse:
    return ScriptedResponse([b'{"error":{"code":"overloaded_error"}}'], 529, AT_ONCE)


def models(case: ToolCase) -> list[str]:
    return [body["model"] for body in case.bodies]


async def test_a_shut_model_is_not_asked_and_the_chain_goes_on():
    case, roads = case_of(saying("From the second."), fallbacks=(SECOND,))
    roads.shut = {"plain"}
    outcome = await case.run()
    assert models(case) == ["second"]
    assert outcome.state is TurnState.DONE
    assert roads.notes == [("second", None)]
    (report,) = case.reporter.reports
    assert report.error_type == "overloaded"


async def test_a_shut_model_fails_with_what_shut_it():
    case, roads = case_of()
    roads.shut, roads.cause = {"plain"}, Cause.NETWORK_TIMEOUT
    outcome = await case.run()
    assert outcome.cause == "network_timeout"
    (report,) = case.reporter.reports
    assert report.error_type == "network_timeout"
    assert "the whole fleet" in report.message
    assert roads.notes == []  # nothing was asked, so nothing speaks against it


async def test_a_shut_fallback_is_passed_over():
    case, roads = case_of(busy(), saying("From the third."), fallbacks=(SECOND, THIRD))
    roads.shut = {"second"}
    await case.run()
    assert models(case) == ["plain", "third"]
    assert roads.notes == [("plain", "overloaded"), ("third", None)]


async def test_where_all_are_shut_the_turn_ends_with_a_notice():
    case, roads = case_of(fallbacks=(SECOND,))
    roads.shut = {"plain", "second"}
    outcome = await case.run()
    assert case.provider.requests == []
    assert isinstance(case.end, TurnFailed)
    assert outcome.cause == "overloaded"


async def test_without_retries_left_the_turn_ends_and_what_was_shown_stays():
    half = ScriptedResponse([frame(content="Half an answer.\n\n")])
    case, roads = case_of(half)
    roads.has_retries = False
    await case.run()
    assert isinstance(case.end, TurnFailed)
    assert case.end.count == 1
    assert case.outbox.texts == ["Half an answer."]
    assert roads.asked == [("plain", False), ("plain", True)]


async def test_a_retry_is_asked_for_as_one():
    case, roads = case_of(busy(), saying("Now."))
    await case.run()
    assert isinstance(case.end, TurnDone)
    assert roads.asked == [("plain", False), ("plain", True)]


async def test_a_request_that_was_refused_for_itself_says_nothing_of_the_model():
    body = {"error": {"code": "context_length_exceeded"}}
    case, roads = case_of(ScriptedResponse([json.dumps(body).encode()], 400))
    await case.run()
    assert roads.notes == []


async def test_rounds_are_one_attempt_of_a_model():
    case, roads = case_of(calling(call("echo")), saying("Done."))
    await case.run()
    assert roads.asked == [("plain", False)]
    assert roads.notes == [("plain", None)]
