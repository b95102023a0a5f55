"""What follows each kind of failure, over real sockets: the exact sequence of requests.

The chain is the scenario and then `plain`, the pool has two keys. Whatever was shown before, the
channel ends with one whole reply of the last attempt, or with what the last attempt showed.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from ops.rehearsal.app import Provider
from ops.rehearsal.scenarios import Say, load_scenarios
from ops.rehearsal.server import rehearsing
from shared.segments import TurnFailed
from shared.turns import Sampling, StopReason, Target, TurnOutcome, TurnState
from tests.support.turn_ports import (
    KeepingReporter,
    PlayedPools,
    RememberingOutbox,
    runner,
)
from tests.support.turns import turn
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import Endpoint
from worker.turn.ports import TimeLimits

QUICK = TimeLimits(first_byte_s=0.3, between_chunks_s=0.3, whole_stream_s=5, turn_deadline_s=20)

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Stage:
    """A running rehearsal, a pool of two keys, and one turn after the other."""

    def __init__(self, url: str, provider: Provider, http: HttpEdge) -> None:
        self._url = url
        self._provider = provider
        self._http = http

    async def turn(self, scenario: str, *, chained: bool = True) -> TurnOutcome:
        self._provider.log.clear()
        self.outbox, self.reporter = RememberingOutbox(), KeepingReporter()
        self.pools = PlayedPools(Endpoint(base_url=self._url), "sk-first-key", "sk-second-key")
        loop = runner(self._http, self.reporter, keys=self.pools, limits=QUICK, may_supersede=True)
        request = turn(
            target=Target(provider="rehearsal", model=f"{scenario}@0"),
            fallbacks=(Target(provider="rehearsal", model="plain@0"),) if chained else (),
            sampling=Sampling(temperature=0.5),
        )
        return (await loop.run(request, self.outbox, asyncio.Event())).outcome

    @property
    def log(self) -> list[Any]:
        entries: list[Any] = json.loads(self._provider.log.as_json())
        return entries

    @property
    def models(self) -> list[str]:
        return [entry["body"]["model"].partition("@")[0] for entry in self.log]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with rehearsing() as (url, provider):
        http = HttpEdge(guard_of("", {"rehearsal": url}))
        yield Stage(url, provider, http)
        await http.close()


PLAIN = "".join(beat.text for beat in load_scenarios()["plain"].beats if isinstance(beat, Say))


class Course(msgspec.Struct, frozen=True):
    """What follows: causes that are reported, and how many requests the scenario gets."""

    causes: tuple[str, ...]
    rests: int = 0


CHANGES_KEY_THEN_MODEL = {
    "invalid_key": Course(("invalid_key", "invalid_key"), rests=2),
    "balance": Course(("insufficient_balance", "insufficient_balance"), rests=2),
    "rate_limit": Course(("rate_limited", "rate_limited"), rests=2),
}
CHANGES_MODEL = {
    "unknown_model": Course(("model_not_found",)),
    "overloaded": Course(("overloaded",)),
    "server_error": Course(("server_error",)),
    "early_error": Course(("overloaded",)),
    "stream_error": Course(("overloaded",)),
    "cut": Course(("connection_lost",)),
    "cut_clean": Course(("stream_truncated",)),
    "silent": Course(("network_timeout",)),
    "stalled": Course(("network_timeout",)),
    "stuck": Course(("network_timeout",)),
}
CHAINED = CHANGES_KEY_THEN_MODEL | CHANGES_MODEL


@pytest.mark.parametrize(("scenario", "course"), CHAINED.items(), ids=CHAINED)
async def test_the_chain_ends_with_one_whole_reply(stage: Stage, scenario: str, course: Course):
    outcome = await stage.turn(scenario)
    assert [report.error_type for report in stage.reporter.reports] == list(course.causes)
    assert stage.models == [*[scenario] * len(course.causes), "plain"]
    assert len(stage.pools.rests) == course.rests
    assert outcome.state is TurnState.DONE
    assert "\n\n".join(stage.outbox.texts).split() == PLAIN.split()
    assert {segment.attempt for segment in stage.outbox.segments} == {len(course.causes) + 1}


HOPELESS = {"context_overflow": "context_overflow", "refusal": "content_filter"}


@pytest.mark.parametrize(("scenario", "cause"), HOPELESS.items(), ids=HOPELESS)
async def test_a_request_that_cannot_succeed_is_sent_once(stage: Stage, scenario: str, cause: str):
    outcome = await stage.turn(scenario)
    assert stage.models == [scenario]
    assert stage.pools.rests == []
    if outcome.state is TurnState.DONE:  # the vendor's refusal came as words, which are shown
        assert outcome.stop_reason is StopReason.CONTENT_FILTER
        return
    ((event, _),) = stage.outbox.ends
    assert isinstance(event, TurnFailed)
    assert event.cause == cause


async def test_a_refused_parameter_is_left_out_once(stage: Stage):
    outcome = await stage.turn("unsupported_parameter")
    first, second = (entry["body"] for entry in stage.log)
    assert "temperature" in first
    assert "temperature" not in second
    assert outcome.state is TurnState.FAILED


async def test_without_a_chain_an_overloaded_model_is_asked_again(stage: Stage):
    outcome = await stage.turn("flaky", chained=False)
    assert stage.models == ["flaky", "flaky"]
    assert outcome.state is TurnState.DONE
