"""Stories of turns through the whole house: real processes, one slot, the rehearsal provider.

Follow-ups, replies that go on, and a provider in trouble.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

import httpx
import pytest

from ops.rehearsal.scenarios import Say, load_scenarios
from shared.continuing import GO_ON
from shared.edges.local_channel import local_turn_id
from shared.edges.records import TurnRecord
from shared.messages import Message, Role
from shared.segments import TurnDone, TurnFailed
from shared.turns import Front, Route, StopReason, Target, TurnRequest, TurnState
from tests.support.house import House, house
from tests.support.servers import flavors, running_server

REPLY_S = 60.0
PLAIN = "".join(beat.text for beat in load_scenarios()["plain"].beats if isinstance(beat, Say))

pytestmark = pytest.mark.slow


async def ended(home: House, turn_id: str) -> TurnRecord:
    async with asyncio.timeout(REPLY_S):
        while True:
            record = await home.records.turn(turn_id)
            if record is not None and record.finished_ms is not None:
                return record
            await asyncio.sleep(0.05)


async def delivered(home: House, channel: int) -> list[str]:
    """What the bot says in a channel, once nothing more is on its way."""
    async with asyncio.timeout(REPLY_S):
        while await home.redis.xlen(home.keys.out_of(channel)):
            await asyncio.sleep(0.05)
    return [one.text for one in await home.channel.messages(channel) if one.is_bot]


async def ask(home: House, channel: int, prompt: str, model: str, *, user: int = 1) -> str:
    target = Target(provider="rehearsal", model=model)
    return local_turn_id(await home.channel.say(channel, prompt, user_id=user, target=target))


async def bodies(home: House) -> list[Any]:
    url = (home.home / "rehearsal.url").read_text().strip()
    async with httpx.AsyncClient() as client:
        log = (await client.get(f"{url}/rehearsal/log")).json()
    return [entry["body"] for entry in log]


async def turnfleet(home: House, url: str, *words: str) -> Any:
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": url, "TURNFLEET_DATA_DIR": str(home.home)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops", *words, "-o", "json"),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode, json.loads(out) if out else None


async def test_stories_of_turns():
    with running_server(flavors()[0]) as server:
        async with house(
            server.url,
            workers=1,
            FOLLOW_UP="replace",
            FIRST_BYTE_S="1",
            BETWEEN_CHUNKS_S="1",
            SLOTS="1",
        ) as home:
            await a_reply_that_was_cut_off_goes_on(home, server.url)
            await a_prompt_replaces_what_its_user_asked_before(home)
            await a_silent_provider_frees_its_slot(home)
            await a_break_after_shown_text_ends_with_one_whole_reply(home)


async def a_reply_that_was_cut_off_goes_on(home: House, url: str) -> None:
    turn_id = await ask(home, 1, "why?", "length@0")
    record = await ended(home, turn_id)
    assert isinstance(record.event, TurnDone)
    assert record.event.stop_reason is StopReason.LENGTH
    code, facts = await turnfleet(home, url, "turns", "continue", turn_id, "--wait")
    assert (code, facts["new_id"], facts["result"]) == (0, f"{turn_id}.2", "done")
    _, second = await bodies(home)
    said, go_on = second["messages"][-2:]
    assert said["role"] == "assistant"
    assert said["content"].startswith("There are three reasons for it.")
    assert go_on["content"] == GO_ON
    texts = await delivered(home, 1)
    assert texts[1].startswith("-# The answer was cut off")
    assert len(texts) == 4  # the rest is played with the same words, and is cut off again
    code, facts = await turnfleet(home, url, "turns", "continue", turn_id)
    assert (code, facts["result"]) == (0, "duplicate")
    assert (await turnfleet(home, url, "turns", "continue", "l1"))[0] == 4


async def a_prompt_replaces_what_its_user_asked_before(home: House) -> None:
    slow = await ask(home, 2, "first", "long@20")
    async with asyncio.timeout(REPLY_S):
        while not [one for one in await home.channel.messages(2) if one.is_bot]:
            await asyncio.sleep(0.05)
    others = await ask(home, 2, "theirs", "plain@0", user=2)
    waiting = await ask(home, 2, "second", "plain@0")
    last = await ask(home, 2, "third", "plain@0")
    states = {one: (await ended(home, one)).state for one in (slow, others, waiting, last)}
    assert states == {
        slow: TurnState.CANCELLED,
        others: TurnState.DONE,
        waiting: TurnState.CANCELLED,
        last: TurnState.DONE,
    }
    texts = await delivered(home, 2)
    assert texts.count("-# Stopped for your next message.") == 1


async def a_silent_provider_frees_its_slot(home: House) -> None:
    silent = await ask(home, 3, "hello?", "silent")
    after = await ask(home, 4, "and you?", "plain@0", user=2)
    record = await ended(home, silent)
    assert record.state is TurnState.FAILED
    assert isinstance(record.event, TurnFailed)
    assert record.event.cause == "network_timeout"
    assert (await ended(home, after)).state is TurnState.DONE
    assert "\n\n".join(await delivered(home, 4)).split() == PLAIN.split()


async def a_break_after_shown_text_ends_with_one_whole_reply(home: House) -> None:
    request = TurnRequest(
        turn_id="l29",
        route=Route(front=Front.LOCAL, channel_id=5, user_id=1, guild_id=7),
        target=Target(provider="rehearsal", model="cut"),
        fallbacks=(Target(provider="rehearsal", model="plain@0"),),
        messages=[Message(role=Role.USER, content="tell me")],
        created_ms=time.time_ns() // 1_000_000,
    )
    await home.queue.admit(request)
    record = await ended(home, "l29")
    assert isinstance(record.event, TurnDone)
    assert (record.state, record.attempt) == (TurnState.DONE, 2)
    *said, note = await delivered(home, 5)
    assert "\n\n".join(said).split() == PLAIN.split()
    assert note.startswith("-# ")  # that another model answered
