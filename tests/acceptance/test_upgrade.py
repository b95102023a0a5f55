"""A rolling upgrade: each process meets messages of the version before and of the version after.

The frozen messages of `tests/data/wire/v1` are the older version's; the newer one's are the same
with fields and tags that nobody knows yet. What nobody can read ends its turn with an error row, or
is buried; no process ends because of it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.edges.local_channel import LocalMessage
from shared.edges.queue import Admission
from shared.keys import Keys
from shared.turns import TurnState
from tests.support.house import House, house
from tests.support.servers import flavors, running_server
from tests.support.turns import turn

pytestmark = pytest.mark.faults

FROZEN = Path(__file__).parents[1] / "data" / "wire" / "v1"
LIMIT_S = 60.0
FUTURE = {"of_a_later_version": {"deep": [1, 2]}, "also": "text"}


def frozen(name: str, **changes: object) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))
    return value | changes


@pytest.fixture(params=flavors())
async def home(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    with running_server(request.param) as server:
        async with house(server.url, workers=0) as running:
            yield running


async def admitted(home: House, number: int, request: bytes) -> str:
    """A turn whose record holds these bytes, as if another gateway had written them."""
    turn_id = f"l{number}"
    assert await home.queue.admit(turn(turn_id, channel=number, guild=number)) is Admission.ACCEPTED
    redis: Any = home.redis
    await redis.hset(home.keys.turn(turn_id), "request", request)
    return turn_id


def request(number: int, **more: object) -> bytes:
    """An older gateway's request, for this turn."""
    route = {"front": "local", "channel_id": number, "user_id": 1, "guild_id": number}
    return json.dumps(
        frozen("request_small", turn_id=f"l{number}", route=route, created_ms=1, **more)
    ).encode()


async def ended(home: House, turn_id: str) -> TurnState:
    async with asyncio.timeout(LIMIT_S):
        while True:
            state = await home.records.state(turn_id)
            if state in {TurnState.DONE, TurnState.FAILED}:
                return state
            await asyncio.sleep(0.05)


async def said(home: House, channel_id: int) -> list[LocalMessage]:
    async with asyncio.timeout(LIMIT_S):
        while not (found := [m for m in await home.channel.messages(channel_id) if m.is_bot]):
            await asyncio.sleep(0.05)
    return found


def all_live(home: House) -> None:
    for process in home.processes:
        process.look()
        assert process.unexpected == [], process.log.read_text()[-2000:]


async def test_workers_read_requests_of_both_neighbours_and_survive_the_rest(home: House):
    older = await admitted(home, 1, request(1))
    newer = await admitted(home, 2, request(2, **FUTURE))
    unread = [
        await admitted(home, 3, b"\x80\x04\x95 no JSON"),
        await admitted(home, 4, request(4)[:-20]),
        await admitted(home, 5, request(5, version=99)),
        await admitted(home, 6, request(6, messages="text where a list was")),
    ]
    home.add_worker()
    assert [await ended(home, one) for one in (older, newer)] == [TurnState.DONE] * 2
    assert [await ended(home, one) for one in unread] == [TurnState.FAILED] * 4
    for channel_id in (1, 2, 3, 4, 5, 6):
        assert await said(home, channel_id)
    after = await admitted(home, 7, request(7))
    assert await ended(home, after) is TurnState.DONE
    all_live(home)


async def append(home: House, number: int, seq: int, data: bytes) -> None:
    """An entry of the out stream, as a worker of another version appends it."""
    route = json.dumps({"front": "local", "channel_id": number, "user_id": 1, "guild_id": 1})
    redis: Any = home.redis
    await redis.xadd(
        home.keys.out_of(number),
        {
            "turn": f"l{number}",
            "attempt": "1",
            "claim": "00000000",
            "seq": str(seq),
            "route": route,
            "data": data,
            "of_a_later_version": "x",
        },
    )


def event(name: str, number: int, **more: object) -> bytes:
    value = frozen(name, **more)
    if "segment" in value:
        value["segment"] |= {"turn_id": f"l{number}", "attempt": 1, "seq": 1}
    return json.dumps(value).encode()


async def test_a_gateway_shows_what_both_neighbours_say_and_buries_the_rest(home: House):
    done = {"count": 1, "notes": [], "stop_reason": "stop"}
    await append(home, 11, 1, event("event_segment", 11))
    await append(home, 11, 2, event("event_done", 11, **done))
    await append(home, 12, 1, event("event_segment", 12, **FUTURE))
    await append(home, 12, 2, event("event_done", 12, **done, **FUTURE))
    await append(home, 13, 1, b'{"type":"a_tag_of_a_later_version","text":"x"}')
    await append(home, 14, 1, b"no JSON at all")
    await append(home, 15, 1, event("event_segment", 15))
    await append(home, 15, 2, event("event_done", 15, **done))
    for channel_id in (11, 12, 15):
        assert [one.text for one in await said(home, channel_id)] == ["Hi 🎉"]
    redis: Any = home.redis
    async with asyncio.timeout(LIMIT_S):
        while await redis.xlen(home.keys.buried) < 2:
            await asyncio.sleep(0.05)
    all_live(home)


async def test_a_recorder_stores_what_both_neighbours_report_and_buries_the_rest(home: House):
    redis: Any = home.redis
    stream = home.keys.errors
    await redis.xadd(stream, {"v": json.dumps(frozen("report", id="older"))})
    await redis.xadd(stream, {"v": json.dumps(frozen("report", id="newer", **FUTURE))})
    for payload in (b"no JSON", json.dumps(frozen("report", id="x", severity="of later")).encode()):
        await redis.xadd(stream, {"v": payload})
    async with asyncio.timeout(LIMIT_S):
        while await redis.xlen(stream):
            await asyncio.sleep(0.05)
    assert await redis.xlen(home.keys.buried) == 2
    all_live(home)


def test_the_newer_neighbour_differs():
    assert set(FUTURE) - set(frozen("request_small")) == set(FUTURE)
    assert msgspec.json.decode(request(1))["turn_id"] == "l1"
    assert Keys().partitions > 1
