"""The MCP reference server over both transports: what it offers, and a model that calls it."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shared.errors import ToolError
from shared.tools import ToolContext
from tests.support.peers import everything
from tests.support.servers import free_port
from tests.support.tool_case import ToolCase, call, calling, saying
from worker.edges.mcp import McpServers, Where, prefixes
from worker.edges.tools import Toolbox

CONTEXT = ToolContext(turn_id="l1", channel_id=1, user_id=2)
START_S = 60.0
SLOW = '{"duration": 60, "steps": 60}'

pytestmark = pytest.mark.peers


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[Toolbox]:
    box = Toolbox([], {"*": ["*"]}, coming=prefixes(["ev"]))
    servers = McpServers({"ev": where}, box, look_s=1.0)
    task = asyncio.create_task(servers.run())
    try:
        async with asyncio.timeout(START_S):
            await servers.first_tries()
            while not box.offered(None):  # over HTTP it may still be starting
                await asyncio.sleep(0.2)
        yield box
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture(params=["stdio", "http"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Toolbox]:
    command = everything()
    if request.param == "stdio":
        async with connected((*command, "stdio")) as running:
            yield running
        return
    port = free_port()
    process = subprocess.Popen(
        [*command, "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with connected(f"http://127.0.0.1:{port}/mcp") as running:
            yield running
    finally:
        process.kill()
        process.wait()


async def test_what_it_offers_is_offered(box: Toolbox):
    offered = {spec.name: spec for spec in box.offered(None)}
    assert {"ev_echo", "ev_get-sum", "ev_get-tiny-image", "ev_get-env"} <= set(offered)
    assert offered["ev_get-sum"].parameters["required"] == ["a", "b"]
    assert box.is_repeatable("ev_echo")
    assert not box.is_repeatable("ev_toggle-simulated-logging")


async def test_its_results_become_text(box: Toolbox):
    assert await box.run("ev_echo", {"message": "grüezi \U0001f9c0"}, CONTEXT) == (
        "Echo: grüezi \U0001f9c0"
    )
    assert await box.run("ev_get-sum", {"a": 1, "b": 2}, CONTEXT) == "The sum of 1 and 2 is 3."
    assert "[a block of type image is not shown]" in await box.run("ev_get-tiny-image", {}, CONTEXT)
    structured = await box.run("ev_get-structured-content", {"location": "Chicago"}, CONTEXT)
    assert '"conditions"' in structured


async def test_its_schemas_are_checked_here(box: Toolbox):
    complaint = box.complaint("ev_get-sum", {"a": "one"})
    assert complaint is not None
    assert "$.a: 'one' is not of type 'number'" in complaint


async def test_what_it_refuses_is_a_failure_without_its_words(box: Toolbox):
    with pytest.raises(ToolError) as failed:
        await box.run("ev_get-sum", {"a": "one"}, CONTEXT)
    assert failed.value.cause in {"refused", "reported_error"}


async def test_a_call_that_is_given_up_leaves_the_connection(box: Toolbox):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await box.run(
                "ev_trigger-long-running-operation", {"duration": 60, "steps": 60}, CONTEXT
            )
    assert await box.run("ev_echo", {"message": "still here"}, CONTEXT) == "Echo: still here"


async def test_a_model_calls_several_of_its_tools_in_one_round(box: Toolbox):
    case = ToolCase(
        calling(
            call("ev_get-sum", '{"a": 20, "b": 22}'),
            call("ev_echo", '{"message": "and"}', id="c2", index=1),
        ),
        saying("It is 42."),
    )
    case.runner.tools = box
    await case.run()
    assert [text.partition("\n")[2] for text in case.results] == [
        "The sum of 20 and 22 is 42.",
        "Echo: and",
    ]
    assert case.outbox.texts == ["It is 42."]
