"""A provider in trouble, seen from a channel: real processes, one slot, the rehearsal provider."""

import asyncio
import time

import pytest

from ops.rehearsal.scenarios import Say, load_scenarios
from shared.edges.local_channel import local_turn_id
from shared.edges.records import TurnRecord
from shared.messages import Message, Role
from shared.segments import TurnDone, TurnFailed
from shared.turns import Front, Route, Target, TurnRequest, TurnState
from tests.support.house import House, house
from tests.support.servers import flavors, running_server

REPLY_S = 60.0
PLAIN = "".join(beat.text for beat in load_scenarios()["plain"].beats if isinstance(beat, Say))
PATIENCE = {"FIRST_BYTE_S": "1", "BETWEEN_CHUNKS_S": "1", "SLOTS": "1"}

pytestmark = pytest.mark.slow


def model(name: str) -> Target:
    return Target(provider="rehearsal", model=name)


async def ended(home: House, turn_id: str) -> TurnRecord:
    async with asyncio.timeout(REPLY_S):
        while True:
            record = await home.records.turn(turn_id)
            if record is not None and record.finished_ms is not None:
                return record
            await asyncio.sleep(0.05)


async def delivered(home: House, channel: int) -> list[str]:
    async with asyncio.timeout(REPLY_S):
        while await home.redis.xlen(home.keys.out_of(channel)):
            await asyncio.sleep(0.05)
    return [one.text for one in await home.channel.messages(channel) if one.is_bot]


async def test_a_provider_in_trouble():
    with running_server(flavors()[0]) as server:
        async with house(server.url, workers=1, **PATIENCE) as home:
            await a_silent_provider_frees_its_slot(home)
            await a_break_after_shown_text_ends_with_one_whole_reply(home)


async def a_silent_provider_frees_its_slot(home: House) -> None:
    silent = await home.channel.say(1, "hello?", user_id=1, target=model("silent"))
    after = await home.channel.say(2, "and you?", user_id=2, target=model("plain@0"))
    record = await ended(home, local_turn_id(silent))
    assert record.state is TurnState.FAILED
    assert isinstance(record.event, TurnFailed)
    assert record.event.cause == "network_timeout"
    assert (await ended(home, local_turn_id(after))).state is TurnState.DONE
    assert "\n\n".join(await delivered(home, 2)).split() == PLAIN.split()


async def a_break_after_shown_text_ends_with_one_whole_reply(home: House) -> None:
    request = TurnRequest(
        turn_id="l29",
        route=Route(front=Front.LOCAL, channel_id=3, user_id=1, guild_id=7),
        target=model("cut"),
        fallbacks=(model("plain@0"),),
        messages=[Message(role=Role.USER, content="tell me")],
        created_ms=time.time_ns() // 1_000_000,
    )
    await home.queue.admit(request)
    record = await ended(home, "l29")
    assert isinstance(record.event, TurnDone)
    assert (record.state, record.attempt) == (TurnState.DONE, 2)
    assert "\n\n".join(await delivered(home, 3)).split() == PLAIN.split()
