"""Tool rounds over real sockets: what the model is told of each call, and how the reply goes on."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from shared.segments import TurnDone
from tests.support.doorman import (
    WHOLE,
    Answer,
    Doorman,
    Reset,
    delta,
    doorman,
    event,
    saying,
    stream,
)
from tests.support.processes import children_collected
from tests.support.staged_turns import client, play
from tests.support.tool_case import Tools
from worker.edges.http import HttpEdge
from worker.edges.mcp import McpServers, prefixes
from worker.edges.tools import Toolbox
from worker.turn.tool_rounds import ToolLimits

pytestmark = pytest.mark.slow

BRIEF = ToolLimits(call_s=0.3)
COMMAND = (sys.executable, "-m", "tests.support.mcp_server", "stdio")


def called(index: int, name: str, arguments: str = "{}", call_id: str = "c") -> dict[str, object]:
    return {
        "index": index,
        "id": call_id,
        "function": {"name": name, "arguments": arguments},
    }


def calls(*found: dict[str, object]) -> Answer:
    return stream(delta(tool_calls=list(found)), delta("tool_calls"), event("[DONE]"))


class Fault(msgspec.Struct, frozen=True):
    """A call, what the model is told of it, and how many tools ran."""

    call: dict[str, object]
    told: str
    ran: int


FAULTS = {
    "cut arguments": Fault(called(0, "echo", '{"text": "ha'), "cut off on their way", 0),
    "no JSON": Fault(called(0, "echo", "text=half"), "not valid JSON", 0),
    "arguments of another kind": Fault(called(0, "echo", '["half"]'), "not an object", 0),
    "arguments that do not fit": Fault(called(0, "echo", '{"text": 5}'), "is not of type", 0),
    "an unknown tool": Fault(called(0, "bake"), "There is no tool of this name", 0),
    "a slow tool": Fault(called(0, "slow"), "timeout", 1),
    "a crashing tool": Fault(called(0, "crash"), "crashed", 1),
    "a tool that is refused": Fault(called(0, "refuse"), "rate_limited, status 429", 1),
}


@pytest.fixture
async def man() -> AsyncIterator[Doorman]:
    async with doorman() as running:
        yield running


@pytest.fixture
async def edge(man: Doorman) -> AsyncIterator[HttpEdge]:
    async with client(man) as running:
        yield running


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_the_model_is_told_and_the_reply_goes_on(man: Doorman, edge: HttpEdge, fault: Fault):
    tools = Tools()
    good = called(1, "echo", '{"text": "fine"}', "d")
    turn = await play(
        man, edge, "tools", calls(fault.call, good), saying(),
        tools=tools.box(), tool_limits=BRIEF,
    )  # fmt: skip
    assert turn.requests == ["first/k1", "first/k1"]
    assert turn.causes == []
    bad, fine = turn.results
    assert fault.told in bad
    assert "hunter2" not in json.dumps([one.body for one in turn.asked])
    assert fine.endswith("fine")
    assert len(tools.ran) == fault.ran + 1
    assert turn.text == WHOLE


async def test_calls_without_ids_of_their_own_are_answered_each(man: Doorman, edge: HttpEdge):
    tools = Tools()
    found = [called(n, "count", json.dumps({"n": n}), "same") for n in range(4)]
    turn = await play(man, edge, "ids", calls(*found), saying(), tools=tools.box())
    assert [json.loads(one.partition("\n")[2])["n"] for one in turn.results] == [0, 1, 2, 3]
    sent = turn.asked[1].body["messages"]
    ids = [call["id"] for one in sent for call in one.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == ids


async def test_a_stream_that_breaks_in_its_calls_runs_none(man: Doorman, edge: HttpEdge):
    tools = Tools()
    broken = stream(delta(tool_calls=[called(0, "echo", '{"text": "x"}')]), Reset())
    turn = await play(man, edge, "broken", broken, tools=tools.box())
    assert tools.ran == []
    assert turn.requests == ["first/k1", "second/k1"]
    assert turn.text == WHOLE


async def test_results_survive_a_break_of_the_next_round(man: Doorman, edge: HttpEdge):
    tools = Tools()
    found = calls(called(0, "echo", '{"text": "once"}'))
    turn = await play(
        man, edge, "again", found, stream(delta(content="Half"), Reset()), tools=tools.box()
    )
    assert len(tools.ran) == 1
    assert turn.requests == ["first/k1", "first/k1", "second/k1"]
    assert [one.endswith("once") for one in turn.results] == [True]
    assert turn.text == WHOLE


@asynccontextmanager
async def server() -> AsyncIterator[Toolbox]:
    box = Toolbox([], {"*": ["*"]}, coming=prefixes(["far"]))
    servers = McpServers({"far": COMMAND}, box)
    task = asyncio.create_task(servers.run())
    try:
        async with asyncio.timeout(60):
            await servers.first_tries()
        yield box
    finally:
        task.cancel()
        await asyncio.wait({task})
        await children_collected()


async def test_an_mcp_server_that_dies_in_a_call_fails_that_call_alone(
    man: Doorman, edge: HttpEdge
):
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    async with server() as box:
        found = calls(called(0, "far_quit"), called(1, "bake", call_id="d"))
        turn = await play(man, edge, "mcp", found, saying(), tools=box)
    assert "unreachable" in turn.results[0]
    assert "There is no tool of this name" in turn.results[1]
    assert isinstance(turn.end, TurnDone)
    assert turn.text == WHOLE
