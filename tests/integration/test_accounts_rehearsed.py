"""Ledger and budgets against the rehearsal's own count, over real sockets, Redis and a database."""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from ops.rehearsal.app import Provider
from ops.rehearsal.server import rehearsing
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.ledger import Used, UsedBy, used
from ops.store.migrate import upgrade
from shared.alerts import Alert, AlertKind
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.queue import Claimed
from shared.edges.redis import connect
from shared.edges.spending import Spending
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.summaries import TurnSummary
from shared.turns import AttemptToken, CredentialSource, Sampling, Target, TurnRequest
from shared.wire import encode_turn_request
from tests.support.configurations import configuration_of
from tests.support.servers import running_server
from tests.support.turn_ports import KeepingReporter, PlayedPools, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.accounts import Accounts
from worker.edges.clock import SystemClock
from worker.edges.fleet.lease import Lease
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import Endpoint
from worker.tasks import run_turn
from worker.turn.ports import TimeLimits

SETTINGS = Settings()
QUICK = TimeLimits(first_byte_s=0.3, between_chunks_s=0.3, whole_stream_s=5, turn_deadline_s=20)
FAULTS = ("cut", "cut_clean", "stream_error", "early_error", "overloaded", "empty")
GOOD = ("plain", "reasoning", "unicode", "length", "think_tags")
TURNS = 30
MODELS = """
[models.{0}]
provider = "rehearsal"
model = "{0}@0"
price = {{ input = 3.0, output = 15.0 }}
"""
PRICES = "".join(MODELS.format(name) for name in (*FAULTS, *GOOD))

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Stage:
    """A running rehearsal, a worker's job with real accounts, and a database."""

    def __init__(self, url: str, provider: Provider, redis: Redis, database: Database) -> None:
        self._endpoint = Endpoint(base_url=url)
        self._http = HttpEdge(guard_of("", {"rehearsal": url}))
        self._provider = provider
        self._spending = Spending(redis, Keys())
        self._database = database
        self.subscribed = False
        self.alerts: list[Alert] = []
        self.outbox = RememberingOutbox()

    async def play(
        self, request: TurnRequest, configuration: str, endpoints: dict[str, str] | None = None
    ) -> TurnSummary:
        """Runs one turn as a worker does; its summary goes to the recorder's tables."""
        settings = msgspec.structs.replace(SETTINGS, endpoints=endpoints or {})
        loaded = Loaded(settings=settings, configuration=configuration_of(configuration))
        summaries: list[TurnSummary] = []

        async def count(summary: TurnSummary) -> None:
            summaries.append(summary)

        async def subscribed(_request: TurnRequest) -> bool:
            return self.subscribed

        clock = SystemClock()
        loop = runner(
            self._http,
            KeepingReporter(),
            keys=PlayedPools(self._endpoint, "sk-first-key", "sk-second-key"),
            limits=QUICK,
            may_supersede=True,
        )
        loop.accounts = Accounts(
            self._spending, lambda: loaded, subscribed, clock.epoch_ms, alert=self.alert
        )
        token = AttemptToken(turn_id=request.turn_id, attempt=1, claim="0a1b2c3d")
        claimed = Claimed(
            token=token,
            request=encode_turn_request(request),
            seq=0,
            crashes=0,
            superseding=False,
            enqueued_ms=1,
            claimed_ms=2,
        )
        self.outbox = RememberingOutbox(request.turn_id)
        ctx: dict[str, Any] = {
            "leases": {request.turn_id: Lease(claimed)},
            "runner": loop,
            "outbox_of": lambda _lease: self.outbox,
            "count": count,
        }
        await run_turn(ctx, request.turn_id)
        await write_reports(self._database, summaries, datetime.now(UTC))
        return summaries[0]

    async def alert(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        return True

    @property
    def end(self) -> TurnDone | TurnFailed:
        return self.outbox.ends[0][0]

    @property
    def log(self) -> list[Any]:
        entries: list[Any] = json.loads(self._provider.log.as_json())
        return entries

    def forget(self) -> None:
        self._provider.log.clear()

    async def sums(self, by: UsedBy, since: datetime) -> list[Used]:
        return await used(self._database, by, since=since)

    async def close(self) -> None:
        await self._http.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home: Path = tmp_path_factory.mktemp("ledger")
    database = Database(database_url(None, home))
    await upgrade(database)
    with running_server("redis") as server:
        async with rehearsing() as (url, provider), aclosing(connect(server.url)) as redis:
            stage = Stage(url, provider, redis, database)
            yield stage
            await stage.close()
    await database.close()


def ask(number: int, first: str, *more: str, **changes: object) -> TurnRequest:
    targets = [Target(provider="rehearsal", model=f"{name}@0") for name in (first, *more)]
    made = turn(target=targets[0], fallbacks=tuple(targets[1:]), sampling=Sampling(temperature=0.5))
    return msgspec.structs.replace(made, turn_id=f"m{number}", **changes)


async def test_the_ledgers_sums_are_the_rehearsals_own_over_random_faults(stage: Stage):
    seed = int(os.environ.get("TURNFLEET_SEED", random.randrange(2**32)))
    sys.stdout.write(f"TURNFLEET_SEED={seed}\n")
    chance = random.Random(seed)
    stage.forget()
    since = datetime.now(UTC) - timedelta(minutes=1)
    ended = []
    for number in range(TURNS):
        chain = [*chance.choices(FAULTS, k=chance.randrange(3)), chance.choice(GOOD)]
        ended.append(await stage.play(ask(1000 + number, *chain), PRICES))

    told = [entry for entry in stage.log if entry["told_output_tokens"] is not None]
    sums = await stage.sums(UsedBy.PROVIDER, since)
    (whole,) = [one for one in sums if one.value == "rehearsal"]
    assert whole.turns == TURNS
    assert whole.input_tokens == sum(entry["prompt_tokens"] for entry in told)
    assert whole.output_tokens == sum(entry["told_output_tokens"] for entry in told)
    assert whole.cost == pytest.approx(
        sum(3e-6 * one["prompt_tokens"] + 15e-6 * one["told_output_tokens"] for one in told)
    )
    read = sum(one.attempts[-1].usage.output or 0 for one in ended)
    assert (whole.output_tokens or 0) - (whole.superseded_output_tokens or 0) == read
    assert whole.attempts == sum(len(one.attempts) for one in ended)
    by_model = {one.value: one for one in await stage.sums(UsedBy.MODEL, since)}
    for name in {entry["model"] for entry in stage.log}:
        mine = [entry for entry in told if entry["model"] == name]
        expected = sum(entry["told_output_tokens"] for entry in mine) if mine else None
        assert by_model[name].output_tokens == expected, name


BUDGET = '\n[[budgets]]\nscope = "{}"\nperiod = "day"\ntokens = {}\n'


async def test_a_stopped_budget_makes_no_provider_call(stage: Stage):
    # The rehearsal says 60 to 200 tokens a reply: the first one spends the budget.
    text = PRICES + BUDGET.format("user", 20)
    first = await stage.play(ask(2001, "plain"), text)
    assert isinstance(stage.end, TurnDone)
    assert stage.end.notes == ("budget_low",)
    stage.forget()
    for number in (2002, 2003):
        summary = await stage.play(ask(number, "plain", "long"), text)
        assert isinstance(stage.end, TurnFailed)
        assert (stage.end.cause, stage.end.count) == ("quota_exhausted", 0)
        assert stage.end.headline == "failure.quota_exhausted:en"
        assert summary.cause == "quota_exhausted"
    assert stage.log == []
    assert (first.attempts[-1].usage.output or 0) > 0

    other = msgspec.structs.replace(ask(2004, "plain").route, user_id=777)
    await stage.play(ask(2004, "plain", route=other), text)
    assert isinstance(stage.end, TurnDone)  # another person has a budget of their own
    own = ask(2005, "plain", credential_source=CredentialSource.PERSONAL)
    await stage.play(own, text)
    assert isinstance(stage.end, TurnDone)  # whoever brings a key spends nothing of ours
    assert len(stage.log) == 2


async def test_a_budget_of_nothing_never_asks(stage: Stage):
    stage.forget()
    text = PRICES + '\n[[budgets]]\nscope = "all"\nperiod = "month"\ncost = 0\n'
    await stage.play(ask(2101, "plain"), text)
    assert isinstance(stage.end, TurnFailed)
    assert stage.log == []
    (alert,) = stage.alerts
    assert (alert.kind, alert.label[:5]) == (AlertKind.BUDGET, "all, ")


async def test_the_budget_stops_between_the_attempts_of_a_turn(stage: Stage):
    """An answer without visible text is asked again, unless it spent the last of the budget."""
    stage.forget()
    text = PRICES + BUDGET.format("guild", 5)
    route = msgspec.structs.replace(ask(2201, "empty").route, guild_id=55)
    await stage.play(ask(2201, "empty", "plain", route=route), text)
    assert isinstance(stage.end, TurnFailed)
    assert stage.end.cause == "quota_exhausted"
    assert len(stage.log) == 1


@pytest.mark.parametrize("subscribed", [False, True])
async def test_a_model_that_needs_a_subscription(stage: Stage, subscribed: bool):
    stage.forget()
    stage.subscribed = subscribed
    text = PRICES.replace('model = "long@0"', "").replace(
        'model = "plain@0"', 'model = "plain@0"\nneeds_subscription = true'
    )
    await stage.play(ask(2300 + subscribed, "plain"), text)
    if subscribed:
        assert isinstance(stage.end, TurnDone)
    else:
        assert isinstance(stage.end, TurnFailed)
        assert stage.end.cause == "subscription_required"
        assert stage.log == []


async def test_what_is_spent_waits_for_a_server_that_is_away(tmp_path: Path):
    del tmp_path
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as redis:
            configuration = configuration_of(BUDGET.format("all", 1))
            loaded = Loaded(settings=SETTINGS, configuration=configuration)

            async def nobody(_request: TurnRequest) -> bool:
                return False

            accounts = Accounts(Spending(redis, Keys()), lambda: loaded, nobody, lambda: 0)
            server.kill()
            asked = asyncio.create_task(accounts.stop_of(ask(1, "plain"), ask(1, "plain").target))
            done, _ = await asyncio.wait([asked], timeout=0.5)
            assert not done
            server.start()
            async with asyncio.timeout(20):
                assert await asked is None


async def test_a_key_that_nobody_looks_at_escapes_no_budget_and_no_subscription(stage: Stage):
    """Somebody brings a junk key to an endpoint of the operator's that asks for none."""
    route = msgspec.structs.replace(ask(2401, "plain").route, user_id=77)
    own = {"credential_source": CredentialSource.PERSONAL, "route": route}
    at_ours = {"rehearsal": "http://model.invalid/v1"}
    stage.forget()
    text = PRICES + BUDGET.format("user", 1)
    await stage.play(ask(2401, "plain", **own), text, endpoints=at_ours)
    assert isinstance(stage.end, TurnDone)
    await stage.play(ask(2402, "plain", **own), text, endpoints=at_ours)
    assert isinstance(stage.end, TurnFailed)
    assert stage.end.cause == "quota_exhausted"
    assert len(stage.log) == 1
    stage.subscribed = False
    needs = PRICES.replace('model = "plain@0"', 'model = "plain@0"\nneeds_subscription = true')
    await stage.play(ask(2403, "plain", **own), needs, endpoints=at_ours)
    assert isinstance(stage.end, TurnFailed)
    assert stage.end.cause == "subscription_required"
    # At the vendor's own address it is their key, and their money.
    await stage.play(ask(2404, "plain", **own), text)
    assert isinstance(stage.end, TurnDone)
