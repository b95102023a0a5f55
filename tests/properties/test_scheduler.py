"""The scheduler on real servers beside its model: order, caps, no idle slot, right books, no rest.

Every step plays a move on the server and on the model, then compares both; the audit must never
find anything, and in the end nothing is left that does not end by itself.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.overview import Overview
from shared.edges.policy import Policy
from shared.edges.queue import Admission, Cancelled, Finished, GivenBack, TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import AttemptToken, Target
from tests.support.scheduler_model import Model, ModelTurn, Standing
from tests.support.servers import RedisServer, flavors, running_server
from tests.support.turns import turn

GUILD_CAP, KEY_CAP = 2, 2
CRASHES = 3
POLICY = msgspec.structs.replace(
    Policy.of(Settings(guild_depth=8, global_depth=20)),
    guild_running=GUILD_CAP,
    key_running=KEY_CAP,
    max_crashes=CRASHES,
    crash_delays_ms=(3_600_000,),
    reap_gap_ms=10**12,  # the model knows no time of grace
)
WITHOUT_TTL = ("out:", "dead", "failed", "totals", "wake", "pause")
"""Keys that live on in an empty queue; none of them grows without a bound."""
PAUSES = ["fleet", "guild:1", "provider:p0"]
DONE = TurnDone(count=0)
numbers = st.integers(0, 7)


class Scheduler(RuleBasedStateMachine):
    """Moves of gateways, workers, operators and accidents."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.redis: Redis = connect(self.url)
        self.keys = Keys("model", partitions=1)
        self.queue = TurnQueue(
            self.redis, self.keys, Settings(guild_weights={"1": 3.0}), policy=POLICY
        )
        self.overview = Overview(self.queue)
        self.model = Model(guild_cap=GUILD_CAP, key_cap=KEY_CAP)
        self.tokens: dict[str, AttemptToken] = {}
        self.begun: dict[tuple[str, bool], list[str]] = {}
        self.late: set[str] = set()
        """Turns that joined their queue later than they were admitted."""
        self.claims = 0

    def do(self, call: Any) -> Any:
        return self.loop.run_until_complete(call)

    @initialize()
    def empty(self) -> None:
        self.do(self.redis.flushall())

    # Gateways

    @rule(
        guild=st.integers(1, 2),
        channel=st.integers(0, 1),
        provider=st.integers(0, 1),
        is_low=st.booleans(),
        waits=st.sampled_from([False, False, False, True]),
    )
    def admit(self, guild: int, channel: int, provider: int, is_low: bool, waits: bool) -> None:
        name, lane = f"t{len(self.model.turns)}", guild * 10 + channel
        answer = self.do(
            self.queue.admit(
                turn(
                    name,
                    channel=lane,
                    guild=guild,
                    target=Target(provider=f"p{provider}", model="m"),
                    replay_of="m1" if is_low else None,
                    wait_ms=3_600_000 if waits else 0,
                )
            )
        )
        depths = self.model.depths()
        if depths.get(str(guild), 0) >= POLICY.guild_depth:
            assert answer is Admission.GUILD_FULL
        elif sum(depths.values()) >= POLICY.global_depth:
            assert answer is Admission.FULL
        else:
            assert answer is Admission.ACCEPTED
            self.model.admit(
                ModelTurn(
                    turn_id=name,
                    guild=str(guild),
                    lane=str(lane),
                    provider=f"p{provider}",
                    is_low=is_low,
                    standing=Standing.LATER if waits else Standing.WAITING,
                )
            )

    @rule(which=numbers)
    def cancel(self, which: int) -> None:
        waiting = self.model.of(Standing.WAITING, Standing.LATER, Standing.LOCKED)
        if waiting:
            name = waiting[which % len(waiting)].turn_id
            assert self.do(self.queue.cancel(name)) is Cancelled.CANCELLED
            self.model.end(name)

    # Workers

    @rule(n=st.integers(1, 4), is_lost=st.booleans())
    def claim(self, n: int, is_lost: bool) -> None:
        self.claims += 1
        claim = f"{self.claims:08x}"
        taken = self.do(self.queue.claim("w", n, claim))
        if is_lost:  # the answer was, and the same claim is asked again
            again = self.do(self.queue.claim("w", n, claim))
            assert [one.token for one in again][: len(taken)] == [one.token for one in taken]
            taken = again
        assert len(taken) <= n
        for one in taken:
            name = one.token.turn_id
            self.model.start(name)
            self.tokens[name] = one.token
            begun = self.begun.setdefault(self.model.turns[name].queue, [])
            if name not in begun:
                begun.append(name)
        if len(taken) < n:
            assert self.model.startable() == [], "a slot stays free though a turn could start"

    def _one_running(self, which: int) -> str:
        running = self.model.of(Standing.RUNNING)
        return running[which % len(running)].turn_id

    def _runs(self) -> bool:
        return bool(self.model.of(Standing.RUNNING))

    @precondition(_runs)
    @rule(which=numbers)
    def finish(self, which: int) -> None:
        name = self._one_running(which)
        assert self.do(self.queue.finish(self.tokens[name], DONE)) is Finished.OK
        self.model.end(name)

    @precondition(_runs)
    @rule(which=numbers)
    def release(self, which: int) -> None:
        name = self._one_running(which)
        assert self.do(self.queue.release(self.tokens[name])) is GivenBack.QUEUED
        self.model.back(name)

    @precondition(_runs)
    @rule(which=numbers)
    def die(self, which: int) -> None:
        name = self._one_running(which)
        self.do(self.redis.zadd(self.keys.leases, {name: 1}))
        ((reaped, became),) = self.do(self.queue.reap())
        assert reaped == name
        crashed = self.model.turns[name]
        crashed.crashes += 1
        if crashed.crashes >= CRASHES:
            assert became is GivenBack.DEAD
            self.model.end(name)
        else:
            assert became is GivenBack.QUEUED
            self.model.hold(name)

    # Time

    @rule(which=numbers)
    def come_due(self, which: int) -> None:
        delayed = self.model.of(Standing.LATER, Standing.LOCKED)
        if delayed:
            name = delayed[which % len(delayed)].turn_id
            self.do(self.redis.zadd(self.keys.delayed, {name: 1}))
            assert self.do(self.queue.reap()) == []
            if delayed[which % len(delayed)].standing is Standing.LATER:
                self.late.add(name)
            self.model.due(name)

    @rule(which=numbers)
    def expire(self, which: int) -> None:
        waiting = self.model.of(Standing.WAITING, Standing.LATER, Standing.LOCKED)
        if waiting:
            name = waiting[which % len(waiting)].turn_id
            self.do(self.redis.zadd(self.keys.waiting, {name: 1}))
            assert self.do(self.queue.reap()) == [(name, GivenBack.EXPIRED)]
            self.model.end(name)

    # Operators and accidents

    @rule(name=st.sampled_from(PAUSES))
    def pause(self, name: str) -> None:
        self.do(self.queue.pause(name))
        self.model.paused.add(name)

    @rule(name=st.sampled_from(PAUSES))
    def resume(self, name: str) -> None:
        self.do(self.queue.resume(name))
        self.model.paused.discard(name)

    @rule()
    def forget_scripts(self) -> None:
        self.do(self.redis.script_flush())

    # What holds

    @invariant()
    def books_are_right(self) -> None:
        assert self.do(self.overview.audit()) == []

    @invariant()
    def caps_hold(self) -> None:
        running = self.model.of(Standing.RUNNING)
        assert len({one.lane for one in running}) == len(running)
        for one in running:
            assert self.model.running_of(guild=one.guild) <= GUILD_CAP
            assert self.model.running_of(provider=one.provider) <= KEY_CAP

    @invariant()
    def counts_are_the_models(self) -> None:
        status = self.do(self.overview.status())
        assert {one.guild: one.depth for one in status.guilds} == self.model.depths()
        assert sum(one.running for one in status.guilds) == len(self.model.of(Standing.RUNNING))
        delayed = self.model.of(Standing.LATER, Standing.LOCKED)
        assert sum(one.delayed for one in status.guilds) == len(delayed)
        assert status.waiting == len(delayed) + len(self.model.of(Standing.WAITING))
        assert set(status.pauses) == self.model.paused

    def teardown(self) -> None:
        try:
            self._drain()
            self._nothing_is_left()
        finally:
            self.do(self.redis.aclose(close_connection_pool=True))
            self.loop.close()

    def _drain(self) -> None:
        for name in PAUSES:
            self.resume(name)
        while self.model.of(Standing.LATER, Standing.LOCKED):
            self.come_due(0)
        for _ in range(60):
            while self._runs():
                self.finish(0)
            self.claim(4, False)
        assert not [one for one in self.model.turns.values() if one.is_alive]

    def _nothing_is_left(self) -> None:
        for queue, begun in self.begun.items():
            admitted = [name for name, one in self.model.turns.items() if one.queue == queue]
            in_time = [name for name in admitted if name in begun and name not in self.late]
            assert [name for name in begun if name not in self.late] == in_time
        for key in self.do(self.redis.keys("*")):
            name = key.decode().removeprefix(self.keys.prefix)
            kept = name.startswith(WITHOUT_TTL) or self.do(self.redis.pttl(key)) > 0
            assert kept, f"{name} stays for ever"


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param, appendfsync="no") as running:
        yield running


@pytest.mark.parametrize("examples", [20, pytest.param(400, marks=pytest.mark.faults)])
def test_the_scheduler_does_what_its_model_does(server: RedisServer, examples: int):
    machine = type("Machine", (Scheduler,), {"url": server.url})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(weights=st.lists(st.floats(0.25, 4.0), min_size=2, max_size=4), starts=st.integers(5, 40))
def test_busy_guilds_share_by_their_weights(server: RedisServer, weights: list[float], starts: int):
    """The bound of start-time fair queuing: no two guilds are further apart than a turn of each."""

    async def play(url: str) -> Counter[str]:
        redis = connect(url)
        by_guild = {str(guild): weight for guild, weight in enumerate(weights)}
        policy = msgspec.structs.replace(
            POLICY, guild_depth=1_000, global_depth=10_000, guild_running=1_000, charge="turns"
        )
        queue = TurnQueue(redis, Keys("fair"), Settings(guild_weights=by_guild), policy=policy)
        try:
            await redis.flushall()
            for n in range(starts):
                for guild in range(len(weights)):
                    await queue.admit(turn(f"{guild}-{n}", channel=guild * 1_000 + n, guild=guild))
            counts: Counter[str] = Counter()
            for _ in range(starts):
                (claimed,) = await queue.claim("w", 1)
                counts[claimed.token.turn_id.partition("-")[0]] += 1
                await queue.finish(claimed.token, DONE)
            return counts
        finally:
            await redis.aclose(close_connection_pool=True)

    counts = asyncio.run(play(server.url))
    for one, first in enumerate(weights):
        for other, second in enumerate(weights):
            apart = abs(counts[str(one)] / first - counts[str(other)] / second)
            assert apart <= 1 / first + 1 / second + 1e-6
