"""Tool rounds of the real loop in all four formats, judged by the rehearsal provider.

Its doors refuse a signature that was changed, a result without its call, and reasoning that is
missing where a vendor demands it: a round that ends well was sent as the vendor wants it.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ops.rehearsal.app import Provider
from ops.rehearsal.server import rehearsing
from shared.segments import TurnDone
from shared.turns import Api, Sampling, StopReason, Target, TurnOutcome
from tests.support.talk import FORMATS, KEYS
from tests.support.tool_case import Tools
from tests.support.turn_ports import KeepingReporter, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.builtin_tools import BUILTIN_TOOLS
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.edges.tools import Toolbox
from worker.providers.endpoints import server_endpoint
from worker.turn.results import NO_BUDGET
from worker.turn.tool_rounds import ToolLimits

PROVIDERS = {
    Api.ANTHROPIC: ("anthropic", "claude-a/"),
    Api.OPENAI_CHAT: ("rehearsal", "ds/"),
    Api.OPENAI_RESPONSES: ("openai", "gpt-5/"),
    Api.GOOGLE: ("google", "gemini-3-pro/"),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Stage:
    """A running rehearsal, and one turn after the other."""

    def __init__(self, url: str, provider: Provider, http: HttpEdge) -> None:
        self.url = url
        self.provider = provider
        self.http = http
        self.outbox = RememberingOutbox()
        self.reporter = KeepingReporter()

    async def turn(
        self, api: Api, scenario: str, box: Toolbox, limits: ToolLimits | None = None
    ) -> TurnOutcome:
        self.provider.log.clear()
        self.outbox, self.reporter = RememberingOutbox(), KeepingReporter()
        name, prefix = PROVIDERS[api]
        loop = runner(
            self.http,
            self.reporter,
            endpoint=server_endpoint(name, {name: self.url}, KEYS),
            tools=box,
            tool_limits=limits or ToolLimits(),
        )
        target = Target(api=api, provider=name, model=f"{prefix}{scenario}@0")
        request = turn(target=target, sampling=Sampling(thinking="low"))
        return (await loop.run(request, self.outbox, asyncio.Event())).outcome

    @property
    def bodies(self) -> list[str]:
        log = json.loads(self.provider.log.as_json())
        return [json.dumps(entry["body"], ensure_ascii=False) for entry in log]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with rehearsing() as (url, provider):
        http = HttpEdge(guard_of("", {"rehearsal": url}))
        yield Stage(url, provider, http)
        await http.close()


BUILT_IN = Toolbox(BUILTIN_TOOLS, {"*": ["*"]})


@pytest.mark.parametrize("api", FORMATS)
async def test_two_calls_at_once_are_answered_to_the_vendors_liking(stage: Stage, api: Api):
    outcome = await stage.turn(api, "sums", BUILT_IN)
    assert stage.reporter.reports == []
    assert (outcome.rounds, outcome.tool_calls) == (2, 2)
    assert outcome.stop_reason is StopReason.STOP
    assert stage.outbox.texts[0] == "Let me work that out."
    assert "42" in "\n".join(stage.outbox.texts)
    assert outcome.usage.input is not None
    assert len(stage.bodies) == 2


@pytest.mark.parametrize("api", [api for api in FORMATS if api is not Api.GOOGLE])
async def test_a_cut_call_is_refused_and_the_model_told_each_time(stage: Stage, api: Api):
    # Google sends calls whole or not at all.
    tools = Tools()
    await stage.turn(api, "tool_cut", tools.box(), ToolLimits(rounds=2))
    assert tools.ran == []
    assert stage.outbox.tools_noted == 0
    assert [report.error_type for report in stage.reporter.reports] == ["limit_exceeded"]
    assert "cut off on their way" in stage.bodies[1]
    assert NO_BUDGET in stage.bodies[-1]
    assert len(stage.bodies) == 4


@pytest.mark.parametrize("api", FORMATS)
async def test_a_model_calls_what_is_not_there(stage: Stage, api: Api):
    tools = Tools()
    await stage.turn(api, "sums", tools.box(["echo"]))
    assert tools.ran == []
    ((event, _),) = stage.outbox.ends
    assert isinstance(event, TurnDone)
    assert "There is no tool of this name" in stage.bodies[1]
