"""Each cause over real sockets, with the exact sequence of requests that may follow it.

Two tables in one: a turn with two keys and a second model, and a turn that has nothing else to try.
All turns run at once, since the waits between retries are real.
"""

import asyncio

import msgspec
import pytest
import pytest_asyncio

from shared.causes import Cause
from shared.segments import TurnDone, TurnFailed
from tests.support.doorman import (
    SILENCE,
    WHOLE,
    Answer,
    Doorman,
    Drip,
    Reset,
    delta,
    doorman,
    event,
    http,
    stream,
)
from tests.support.staged_turns import Played, client, play
from worker.edges.http import HttpEdge
from worker.failures.accounts import Stop

pytestmark = pytest.mark.slow

K1, K2, SECOND = "first/k1", "first/k2", "second/k1"
KEYS_THEN_MODEL = (K1, K2, SECOND)
NEXT_MODEL = (K1, SECOND)
AGAIN_THEN_MODEL = (K1, K1, SECOND)
ONCE = (K1,)
FOUR = (K1,) * 4
SHORTER = (K1, f"{K1} shorter")


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """A failing answer, and what follows.

    Args:
        answer: of the first model, always.
        then: the requests of a turn with two keys and a second model.
        alone: the requests of a turn without either.
        provider: of the first model.
        place: where it is said to listen.
        stop: what accounts say.
    """

    answer: Answer = ()
    then: tuple[str, ...]
    alone: tuple[str, ...]
    provider: str = "rehearsal"
    place: str | None = None
    stop: Stop | None = None


def error(status: int, message: str = "no", **facts: object) -> Answer:
    return http(status, msgspec.json.encode({"error": {"message": message, **facts}}).decode())


def ours(cause: Cause) -> Course:
    return Course(stop=Stop(cause=cause, why="spent"), then=(), alone=())


FRAME = {"type": "message_start"}
MESSAGE, OTHER = ({"message": {"id": name, "model": "m", "usage": {}}} for name in "ab")
CALLS = [
    {"index": n, "id": f"c{n}", "function": {"name": "x", "arguments": "{}"}} for n in range(129)
]

TABLE: dict[Cause, Course] = {
    Cause.INVALID_KEY: Course(answer=error(401), then=KEYS_THEN_MODEL, alone=ONCE),
    Cause.PERMISSION_DENIED: Course(answer=error(403), then=KEYS_THEN_MODEL, alone=ONCE),
    Cause.INSUFFICIENT_BALANCE: Course(answer=error(402), then=KEYS_THEN_MODEL, alone=ONCE),
    Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS: Course(
        answer=error(402, "You requested up to 2048 tokens, but can only afford 77"),
        then=(K1, f"{K1} at most 77", f"{K2} at most 77", SECOND),
        alone=(K1, f"{K1} at most 77"),
    ),
    Cause.PLAN_ACCESS_DENIED: Course(
        answer=error(429, "This subscription plan does not yet include access to it"),
        then=NEXT_MODEL,
        alone=ONCE,
    ),
    Cause.REGION_NOT_SUPPORTED: Course(
        answer=error(403, code="unsupported_country_region_territory"), then=NEXT_MODEL, alone=ONCE
    ),
    Cause.DATA_POLICY: Course(
        answer=error(404, "No endpoints found matching your data policy"), then=ONCE, alone=ONCE
    ),
    Cause.ENDPOINT_NOT_FOUND: Course(
        answer=http(404, '{"detail":"Not Found"}'), then=NEXT_MODEL, alone=ONCE
    ),
    Cause.CONNECTION_REFUSED: Course(place="http://127.0.0.1:1", then=(SECOND,), alone=()),
    Cause.ENDPOINT_NOT_ALLOWED: Course(place="http://10.0.0.1", then=(SECOND,), alone=()),
    Cause.MODEL_NOT_FOUND: Course(
        answer=error(404, code="model_not_found"), then=NEXT_MODEL, alone=ONCE
    ),
    Cause.CONTEXT_OVERFLOW: Course(
        answer=error(400, code="context_length_exceeded"), then=SHORTER, alone=SHORTER
    ),
    Cause.REQUEST_TOO_LARGE: Course(answer=http(413, "<html>"), then=SHORTER, alone=SHORTER),
    Cause.INVALID_REQUEST: Course(
        answer=error(400, "Unsupported parameter: 'temperature'", param="temperature"),
        then=(K1, f"{K1} without temperature"),
        alone=(K1, f"{K1} without temperature"),
    ),
    Cause.MALFORMED_FUNCTION_CALL: Course(
        answer=stream(event({"error": {"code": "MALFORMED_FUNCTION_CALL", "message": "no"}})),
        then=AGAIN_THEN_MODEL,
        alone=FOUR,
    ),
    Cause.TOOL_GENERATION_FAILED: Course(
        answer=error(400, code="tool_use_failed"), then=AGAIN_THEN_MODEL, alone=FOUR
    ),
    Cause.EMPTY_STREAM: Course(answer=stream(), then=AGAIN_THEN_MODEL, alone=FOUR),
    Cause.MALFORMED_EVENT: Course(
        answer=stream(*[event('{"choices": [{"del')] * 3), then=AGAIN_THEN_MODEL, alone=FOUR
    ),
    Cause.MESSAGE_SEQUENCE: Course(
        provider="anthropic",
        answer=stream(event(FRAME | MESSAGE), event(FRAME | OTHER)),
        then=AGAIN_THEN_MODEL,
        alone=FOUR,
    ),
    Cause.UPSTREAM_ERROR: Course(answer=error(501), then=AGAIN_THEN_MODEL, alone=FOUR),
    Cause.RATE_LIMITED: Course(answer=error(429), then=KEYS_THEN_MODEL, alone=FOUR),
    Cause.DAILY_QUOTA_EXHAUSTED: Course(
        answer=error(429, "Rate limit exceeded: free-models-per-day"),
        then=KEYS_THEN_MODEL,
        alone=ONCE,
    ),
    Cause.CONTENT_FILTER: Course(answer=error(400, code="content_filter"), then=ONCE, alone=ONCE),
    Cause.MODERATION: Course(
        answer=error(403, metadata={"flagged_input": "x", "reasons": ["y"]}), then=ONCE, alone=ONCE
    ),
    Cause.PROMPT_BLOCKED: Course(
        provider="google",
        answer=stream(event({"promptFeedback": {"blockReason": "SAFETY"}})),
        then=ONCE,
        alone=ONCE,
    ),
    Cause.NETWORK_TIMEOUT: Course(answer=(SILENCE,), then=NEXT_MODEL, alone=FOUR),
    Cause.REQUEST_TIMEOUT: Course(
        answer=stream(Drip(delta(content="and "), 0.1)), then=NEXT_MODEL, alone=FOUR
    ),
    Cause.GATEWAY_TIMEOUT: Course(answer=http(504, ""), then=NEXT_MODEL, alone=FOUR),
    Cause.CONNECTION_LOST: Course(
        answer=stream(delta(content="Half "), Reset()), then=NEXT_MODEL, alone=FOUR
    ),
    Cause.STREAM_TRUNCATED: Course(
        answer=stream(delta(content="Half")), then=NEXT_MODEL, alone=FOUR
    ),
    Cause.OVERLOADED: Course(answer=http(529, ""), then=NEXT_MODEL, alone=FOUR),
    Cause.SERVER_ERROR: Course(answer=http(500, ""), then=NEXT_MODEL, alone=FOUR),
    Cause.BAD_GATEWAY: Course(answer=http(502, "<html>"), then=NEXT_MODEL, alone=FOUR),
    Cause.INSUFFICIENT_SYSTEM_RESOURCE: Course(
        answer=stream(delta(content="Half"), delta("insufficient_system_resource")),
        then=NEXT_MODEL,
        alone=FOUR,
    ),
    Cause.LIMIT_EXCEEDED: Course(
        answer=stream(delta(tool_calls=CALLS), delta("tool_calls")), then=ONCE, alone=ONCE
    ),
    Cause.QUOTA_EXHAUSTED: ours(Cause.QUOTA_EXHAUSTED),
    Cause.SUBSCRIPTION_REQUIRED: ours(Cause.SUBSCRIPTION_REQUIRED),
}
NOT_OF_A_REQUEST = {Cause.INTERNAL_ERROR, Cause.WORKER_LOST}
"""Found by the fleet, when nothing was asked or nobody knows what was."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played() -> dict[tuple[Cause, bool], Played]:
    """Every row of the table, with and without something else to try."""
    async with doorman() as man, client(man) as edge, asyncio.TaskGroup() as group:
        tasks = {
            (cause, chain): group.create_task(_play(man, edge, cause, course, chain=chain))
            for cause, course in TABLE.items()
            for chain in (True, False)
        }
        return {name: await task for name, task in tasks.items()}


async def _play(
    man: Doorman, edge: HttpEdge, cause: Cause, course: Course, *, chain: bool
) -> Played:
    return await play(
        man,
        edge,
        f"{cause}-{'chain' if chain else 'alone'}",
        course.answer,
        provider=course.provider,
        chain=chain,
        place=course.place,
        stop=course.stop,
    )


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("chain", [True, False], ids=["chain", "alone"])
@pytest.mark.parametrize("cause", TABLE)
async def test_the_requests_that_follow(
    played: dict[tuple[Cause, bool], Played], cause: Cause, chain: bool
):
    course, turn = TABLE[cause], played[cause, chain]
    expected = course.then if chain else course.alone
    assert tuple(turn.requests) == expected
    assert set(turn.causes) == {cause}
    if SECOND in expected:
        assert isinstance(turn.end, TurnDone)
        assert turn.text == WHOLE  # one whole reply of the last attempt, whatever was shown before
        attempt = len(turn.causes) + 1
        assert {segment.attempt for segment in turn.segments} == {attempt}
    else:
        assert isinstance(turn.end, TurnFailed)
        assert turn.end.cause == cause


def test_the_table_has_every_cause_that_a_request_can_end_with():
    assert set(TABLE) == set(Cause) - NOT_OF_A_REQUEST
