"""Turns for tests of the fleet."""

import asyncio
from typing import Any

import msgspec
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.queue import Claimed, TurnQueue
from shared.edges.streams import Entry, envelope_of
from shared.keys import Keys
from shared.messages import Message, Role, TextBlock
from shared.segments import Envelope, Segment, SegmentKind, SegmentReady
from shared.turns import AttemptToken, Front, Route, Target, TurnRequest

SNOWFLAKE = 2**63 - 25
"""An id that a floating-point number would change."""


def turn(
    turn_id: str = "l1", *, channel: int = SNOWFLAKE, guild: int | None = 7, **more: Any
) -> TurnRequest:
    user = more.pop("user", SNOWFLAKE - 1)
    return TurnRequest(
        turn_id=turn_id,
        route=Route(front=Front.LOCAL, channel_id=channel, user_id=user, guild_id=guild),
        target=more.pop("target", Target(provider="rehearsal", model="plain")),
        messages=[Message(role=Role.USER, content=[TextBlock(text="hello")])],
        created_ms=1_700_000_000_000,
        **more,
    )


def segment(token: AttemptToken, seq: int, text: str = "text") -> SegmentReady:
    return SegmentReady(
        segment=Segment(
            turn_id=token.turn_id,
            attempt=token.attempt,
            seq=seq,
            kind=SegmentKind.TEXT,
            text=text,
            start=0,
            end=len(text),
        )
    )


async def claim_one(queue: TurnQueue, worker_id: str = "w1") -> Claimed:
    (claimed,) = await queue.claim(worker_id, 1)
    return claimed


async def admit_and_claim(queue: TurnQueue, turn_id: str = "l1", **more: Any) -> Claimed:
    assert await queue.admit(turn(turn_id, **more)) == "accepted"
    return await claim_one(queue)


async def out_entries(redis: Redis, keys: Keys) -> list[Envelope]:
    """Everything on the out streams, by time."""
    found: list[Envelope] = []
    for partition in range(keys.partitions):
        rows: list[Any] = await redis.xrange(keys.out(partition))
        found += [envelope_of(Entry(row[0].decode(), row[1])) for row in rows]
    return sorted(found, key=lambda envelope: [int(part) for part in envelope.entry_id.split("-")])


async def lease_ended(queue: TurnQueue) -> None:
    """Waits until the server's clock has passed the leases of a `brief_leases` queue."""
    rows: list[Any] = await queue.redis.zrange(queue.keys.leases, 0, -1, withscores=True)
    latest = max((score for _, score in rows), default=0)
    while True:
        seconds, micros = await queue.redis.time()
        if seconds * 1000 + micros // 1000 > latest:
            return
        await asyncio.sleep(0)


def with_policy(queue: TurnQueue, **changes: Any) -> TurnQueue:
    """The same queue under another policy."""
    policy = msgspec.structs.replace(queue.policy, **changes)
    return TurnQueue(queue.redis, queue.keys, Settings(), policy=policy)
