"""Tool rounds through the whole house: real processes, a real server, the rehearsal provider."""

import asyncio
import json
import sys
from typing import Any

import httpx
import pytest

from shared.edges.local_channel import local_turn_id
from shared.edges.records import TurnRecord
from shared.edges.redis import within
from shared.segments import TurnFailed
from shared.turns import Target, TurnState
from tests.support.house import House, house
from tests.support.servers import flavors, running_server

ALL = json.dumps({"*": ["*"], "8": ["current_time"]})
REPLY_S = 30.0

pytestmark = pytest.mark.slow


async def ended(home: House, turn_id: str) -> TurnRecord:
    async with asyncio.timeout(REPLY_S):
        while True:
            record = await home.records.turn(turn_id)
            if record is not None and record.finished_ms is not None:
                return record
            await asyncio.sleep(0.05)


async def shown(home: House, channel: int, count: int) -> list[str]:
    async with asyncio.timeout(REPLY_S):
        while True:
            said = [one.text for one in await home.channel.messages(channel) if one.is_bot]
            if len(said) >= count:
                return said
            await asyncio.sleep(0.05)


async def requests(home: House) -> list[Any]:
    url = (home.home / "rehearsal.url").read_text().strip()
    async with httpx.AsyncClient() as client:
        log = (await client.get(f"{url}/rehearsal/log")).json()
    return [entry["body"] for entry in log]


async def ask(home: House, channel: int, prompt: str, *, guild: int, model: str = "sums") -> str:
    target = Target(provider="rehearsal", model=model)
    said = await home.channel.say(channel, prompt, user_id=1, guild_id=guild, target=target)
    return local_turn_id(said)


async def test_a_tool_round_reaches_the_channel_as_one_reply():
    with running_server(flavors()[0]) as server:
        await play(server.url)


async def play(url: str) -> None:
    async with house(url, workers=1, TOOLS=ALL) as home:
        record = await ended(home, await ask(home, 1, "what is twice 21?", guild=7))
        assert record.state is TurnState.DONE
        assert record.outcome is not None
        assert (record.outcome.rounds, record.outcome.tool_calls) == (2, 2)
        said = await shown(home, 1, record.outcome.segments)
        assert said[0] == "Let me work that out."
        assert "\n42" in "\n".join(said)
        first, second = await requests(home)
        assert [tool["function"]["name"] for tool in first["tools"]] == [
            "calculate",
            "current_time",
        ]
        results = [one["content"] for one in second["messages"] if one["role"] == "tool"]
        assert results[0].endswith("\n42")
        assert "Europe/Zurich" in results[1]

        # A guild with a list of its own: the model calls what it was not offered, and is told.
        record = await ended(home, await ask(home, 2, "and here?", guild=8))
        assert record.outcome is not None
        assert record.outcome.tool_calls == 1
        refused = [
            one["content"]
            for one in (await requests(home))[-1]["messages"]
            if one["role"] == "tool"
        ]
        assert refused[0].startswith("There is no tool of this name")


async def test_another_worker_goes_on_from_the_results_of_one_that_died():
    with running_server(flavors()[0]) as server:
        async with house(server.url, workers=1, TOOLS=ALL) as home:
            turn_id = await ask(home, 1, "what is twice 21?", guild=7, model="sums@4")
            await shown(home, 1, 1)
            async with asyncio.timeout(REPLY_S):
                while len(await requests(home)) < 2:
                    await asyncio.sleep(0.05)
            home.workers[0].kill()
            home.workers[0].start()
            record = await ended(home, turn_id)
            assert (record.state, record.attempt) == (TurnState.DONE, 2)
            assert record.outcome is not None
            assert record.outcome.tool_calls == 0
            said = await shown(home, 1, record.outcome.segments)
            assert said[0] == "Let me work that out."
            assert len(said) == record.outcome.segments
            _, second, third = await requests(home)
            assert second["messages"] == third["messages"]


async def test_a_worker_that_dies_in_a_tool_runs_it_no_second_time_and_the_channel_is_told():
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    where = {"far": [sys.executable, "-m", "tests.support.mcp_server", "stdio"]}
    tools, servers = json.dumps({"*": ["far_slow"]}), json.dumps(where)
    with running_server(flavors()[0]) as server:
        async with house(server.url, workers=1, TOOLS=tools, MCP=servers) as home:
            turn_id = await ask(home, 1, "look it up", guild=7, model="tool@0")
            async with asyncio.timeout(REPLY_S):
                while await within(home.redis.hget(home.keys.turn(turn_id), "tools")) != b"1":
                    await asyncio.sleep(0.05)
            home.workers[0].kill()
            home.workers[0].start()
            record = await ended(home, turn_id)
            assert (record.state, record.attempt) == (TurnState.FAILED, 1)
            assert isinstance(record.event, TurnFailed)
            assert record.event.cause == "worker_lost"
            said = await shown(home, 1, record.event.count + 1)
            assert "was not run a second time" in said[-1]
            assert len(await requests(home)) == 1
