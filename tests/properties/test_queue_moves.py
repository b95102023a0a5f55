"""Random moves of gateways, workers, deaths and zombies on a server, against what must hold."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.policy import Policy
from shared.edges.queue import Admission, Appended, Cancelled, Finished, TurnQueue
from shared.edges.redis import connect, within
from shared.keys import Keys
from shared.segments import AttemptSuperseded, Envelope, SegmentReady, TurnDone, TurnFailed
from shared.turns import AttemptToken, FollowUp, Target
from tests.support.servers import RedisServer, flavors, running_server
from tests.support.turns import out_entries, segment, turn

GUILD_RUNNING, KEY_RUNNING = 2, 2
POLICY = Policy.of(Settings(guild_depth=6, global_depth=12, slots=8))
WITHOUT_TTL = ("out:", "dead", "failed", "totals", "wake")
"""Keys that live on in an empty queue; none of them grows without a bound."""

MOVES = [
    "admit",
    "admit",
    "replace",
    "merge",
    "claim",
    "claim",
    "append",
    "next",
    "tool",
    "finish",
    "release",
    "die",
    "cancel",
    "zombie",
]
FOLLOW_UPS = {
    "admit": FollowUp.QUEUE,
    "replace": FollowUp.REPLACE,
    "merge": FollowUp.MERGE,
}
Move = tuple[str, int, int]
moves = st.lists(
    st.tuples(st.sampled_from(MOVES), st.integers(0, 5), st.integers(0, 5)), min_size=5, max_size=80
)


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param, appendfsync="no") as running:
        yield running


class Play:
    """Plays moves and remembers what was promised."""

    def __init__(self, redis: Redis, crash: str) -> None:
        self.redis = redis
        self.keys = Keys("play", partitions=1)
        # Without delays here: the scheduler's own model has them.
        policy = msgspec.structs.replace(
            POLICY, key_running=KEY_RUNNING, crash=crash, crash_delays_ms=(0,)
        )
        self.queue = TurnQueue(redis, self.keys, Settings(), policy=policy)
        self.accepted: dict[int, list[str]] = defaultdict(list)
        self.begun: dict[int, list[str]] = defaultdict(list)
        self.lane_of: dict[str, int] = {}
        self.running: dict[str, AttemptToken] = {}
        self.seqs: dict[str, int] = {}
        self.zombies: list[AttemptToken] = []
        self.stopped_waiting: set[str] = set()

    async def move(self, name: str, a: int, b: int) -> None:
        if name in FOLLOW_UPS:
            await self.admit(a, b, FOLLOW_UPS[name])
        elif name == "claim":
            await self.claim(1 + a % 3)
        elif name == "zombie":
            await self.zombie()
        elif name == "cancel":
            await self.cancel(a)
        elif self.running:
            turn_id = sorted(self.running)[a % len(self.running)]
            await getattr(self, name)(turn_id, self.running[turn_id])

    async def admit(self, guild: int, channel: int, follow_up: FollowUp) -> None:
        turn_id = f"l{len(self.lane_of)}"
        lane = guild % 3 * 10 + channel % 2
        target = Target(provider=f"p{channel % 3 % 2}", model="m")
        request = turn(turn_id, channel=lane, guild=guild % 3, target=target, follow_up=follow_up)
        before = await self.waiting(lane)
        if await self.queue.admit(request) is Admission.ACCEPTED:
            self.accepted[lane].append(turn_id)
            self.lane_of[turn_id] = lane
            self.stopped_waiting |= before - await self.waiting(lane)

    async def waiting(self, lane: int) -> set[str]:
        found = await within(self.redis.lrange(self.keys.lane(str(lane)), 0, -1))
        return {turn_id.decode() for turn_id in found}

    async def claim(self, n: int) -> None:
        for claimed in await self.queue.claim("w", n):
            token = claimed.token
            assert token.turn_id not in self.running
            self.running[token.turn_id] = token
            self.seqs[token.turn_id] = 0
            begun = self.begun[self.lane_of[token.turn_id]]
            if token.turn_id not in begun:
                begun.append(token.turn_id)

    async def append(self, turn_id: str, token: AttemptToken) -> None:
        seq = self.seqs[turn_id] + 1
        assert await self.queue.append(token, seq, segment(token, seq)) is Appended.OK
        self.seqs[turn_id] = seq

    async def next(self, turn_id: str, token: AttemptToken) -> None:
        following = await self.queue.next_attempt(token)
        assert following is not None
        self.zombies.append(token)
        self.running[turn_id] = following
        self.seqs[turn_id] = 0

    async def tool(self, turn_id: str, token: AttemptToken) -> None:
        assert await self.queue.note_tool(token)

    async def finish(self, turn_id: str, token: AttemptToken) -> None:
        event = TurnDone(count=self.seqs[turn_id])
        assert await self.queue.finish(token, event) is Finished.OK
        self.drop(turn_id)

    async def release(self, turn_id: str, token: AttemptToken) -> None:
        await self.queue.release(token)
        self.drop(turn_id)

    async def die(self, turn_id: str, token: AttemptToken) -> None:
        await self.redis.zadd(self.keys.leases, {turn_id: 1})
        ((reaped, _),) = await self.queue.reap()
        assert reaped == turn_id
        self.drop(turn_id)

    def drop(self, turn_id: str) -> None:
        self.zombies.append(self.running.pop(turn_id))

    async def zombie(self) -> None:
        for token in self.zombies[-3:]:
            answer = await self.queue.append(token, 1, segment(token, 1))
            assert answer is Appended.FENCED
            assert await self.queue.next_attempt(token) in (None, self.running.get(token.turn_id))

    async def cancel(self, a: int) -> None:
        if not self.lane_of:
            return
        turn_id = sorted(self.lane_of)[a % len(self.lane_of)]
        if await self.queue.cancel(turn_id) is Cancelled.CANCELLED:
            self.stopped_waiting.add(turn_id)

    async def check(self) -> None:
        """What holds after every move."""
        guilds = await self.counts(self.keys.running_guilds)
        provider_keys = await self.counts(self.keys.running_keys)
        lanes = await within(self.redis.hgetall(self.keys.running_lanes))
        assert set(await self.redis.zrange(self.keys.leases, 0, -1)) == set(lanes.values())
        assert {tid.decode() for tid in lanes.values()} == set(self.running)
        assert sum(guilds.values()) == sum(provider_keys.values()) == len(self.running)
        assert all(0 < n <= GUILD_RUNNING for n in guilds.values())
        assert all(0 < n <= KEY_RUNNING for n in provider_keys.values())
        waiting = [
            await within(self.redis.llen(self.keys.lane(str(lane)))) for lane in self.accepted
        ]
        depth = sum((await self.counts(self.keys.depth)).values())
        assert depth == sum(waiting) + len(self.running)

    @staticmethod
    def ended_at(envelopes: list[Envelope]) -> tuple[int, ...]:
        return tuple(int(part) for part in envelopes[-1].entry_id.split("-"))

    async def counts(self, name: str) -> dict[bytes, int]:
        found = await within(self.redis.hgetall(name))
        return {key: int(value) for key, value in found.items()}

    async def drain(self) -> None:
        """Everything that waits runs and ends."""
        for _ in range(200):
            for turn_id, token in list(self.running.items()):
                await self.finish(turn_id, token)
            await self.claim(3)
            if not self.running:
                return
        raise AssertionError("the queue does not run empty")

    async def check_end(self) -> None:
        """What holds when all is done."""
        for lane, accepted in self.accepted.items():
            expected = [tid for tid in accepted if tid in self.begun[lane]]
            assert self.begun[lane] == expected
            assert set(accepted) - set(expected) <= self.stopped_waiting
        by_turn: dict[str, list[Envelope]] = defaultdict(list)
        for envelope in await out_entries(self.redis, self.keys):
            by_turn[envelope.turn_id].append(envelope)
        assert set(by_turn) == set(self.lane_of)
        for lane, accepted in self.accepted.items():
            ran = [turn_id for turn_id in accepted if turn_id not in self.stopped_waiting]
            ids = {turn_id: self.ended_at(by_turn[turn_id]) for turn_id in ran}
            assert ran == sorted(ran, key=lambda turn_id: ids[turn_id]), lane
        for envelopes in by_turn.values():
            check_story(envelopes)
        for key in await self.redis.keys("*"):
            name = key.decode().removeprefix(self.keys.prefix)
            assert name.startswith(WITHOUT_TTL) or await self.redis.pttl(key) > 0, name


def check_story(envelopes: list[Envelope]) -> None:
    """One whole story: attempts in order, seqs without gap, one terminal event, the last."""
    *before, last = envelopes
    assert isinstance(last.event, TurnDone | TurnFailed)
    attempt, seq = 0, 0
    for envelope in before:
        match envelope.event:
            case AttemptSuperseded():
                assert envelope.attempt > attempt
                assert (envelope.event.by, envelope.seq) == (envelope.attempt, 0)
                attempt, seq = envelope.attempt, 0
            case SegmentReady():
                if envelope.attempt > attempt:
                    assert attempt == 0  # an attempt that follows shown text is announced
                    attempt = envelope.attempt
                assert (envelope.attempt, envelope.seq) == (attempt, seq + 1)
                seq += 1
            case _:
                raise AssertionError("an event follows the terminal one")
    assert last.seq == seq + 1
    assert last.event.count == seq


@pytest.mark.parametrize("crash", ["supersede", "notice"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(played=moves)
def test_whatever_happens_every_turn_has_one_whole_story(
    server: RedisServer, crash: str, played: list[Move]
):
    async def play() -> None:
        redis = connect(server.url)
        try:
            await redis.flushall()
            game = Play(redis, crash)
            for move in played:
                await game.move(*move)
                await game.check()
            await game.drain()
            await game.check()
            await game.check_end()
        finally:
            await redis.aclose(close_connection_pool=True)

    asyncio.run(play())
