"""Turns against litellm's proxy, a gateway to providers that many deployments stand behind.

Its answers are mocked, its wire format and its errors are its own.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from shared.failures import ErrorReport
from shared.secrets import Secret
from shared.segments import Segment, TurnDone, TurnFailed
from shared.turns import Api, Target, TurnOutcome, TurnState
from tests.support.peers import litellm
from tests.support.servers import free_port
from tests.support.tool_case import Tools
from tests.support.turn_ports import KeepingReporter, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import Endpoint
from worker.turn.ports import TimeLimits

KEY = "sk-a-key-of-the-test-0123456789"
ANSWER = "The mocked answer. It has two sentences."
MODELS = {
    "mocked": ANSWER,
    "throttled": "litellm.RateLimitError",
    "broken": "litellm.InternalServerError",
    "overflowing": "litellm.ContextWindowExceededError",
}
CONFIG = {
    "model_list": [
        {
            "model_name": name,
            "litellm_params": {"model": "openai/gpt-4o", "api_key": "none", "mock_response": said},
        }
        for name, said in MODELS.items()
    ],
    "general_settings": {"master_key": KEY},
    "router_settings": {"num_retries": 0},
}
START_S = 180.0
LIMITS = TimeLimits(first_byte_s=30, between_chunks_s=30, whole_stream_s=60, turn_deadline_s=90)

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("litellm")
    config, port = home / "config.yaml", free_port()
    config.write_bytes(msgspec.json.encode(CONFIG))  # JSON is YAML
    plain = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    with (home / "log").open("wb") as log:
        listen = ("--host", "127.0.0.1", "--port", str(port))
        process = subprocess.Popen(
            [str(litellm() / "litellm"), "--config", str(config), *listen],
            env={**plain, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"},
            stdout=log,
            stderr=log,
        )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture
async def url(proxy: str) -> str:
    async with asyncio.timeout(START_S), httpx.AsyncClient() as client:
        while True:
            try:
                if (await client.get(f"{proxy}/health/liveliness")).is_success:
                    return proxy
            except httpx.HTTPError:
                await asyncio.sleep(0.2)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn went."""

    outcome: TurnOutcome
    event: TurnDone | TurnFailed
    segments: list[Segment]
    reports: list[ErrorReport]

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)


@pytest.fixture
async def http(url: str) -> AsyncIterator[HttpEdge]:
    edge = HttpEdge(guard_of("", {"box": url}))
    yield edge
    await edge.close()


async def ask(
    url: str, http: HttpEdge, model: str, *, api: Api = Api.OPENAI_CHAT, key: str = KEY
) -> Ended:
    outbox, reporter = RememberingOutbox(), KeepingReporter()
    endpoint = Endpoint(base_url=f"{url}/v1", key=Secret(key))
    loop = runner(http, reporter, endpoint=endpoint, limits=LIMITS, tools=Tools().box())
    request = turn(target=Target(api=api, provider="box", model=model))
    outcome = (await loop.run(request, outbox, asyncio.Event())).outcome
    ((event, _),) = outbox.ends
    return Ended(outcome=outcome, event=event, segments=outbox.segments, reports=reporter.reports)


@pytest.mark.parametrize("api", [Api.OPENAI_CHAT, Api.ANTHROPIC])
async def test_an_answer_is_whole_and_counted(url: str, http: HttpEdge, api: Api):
    ended = await ask(url, http, "mocked", api=api)
    assert ended.outcome.state is TurnState.DONE
    assert ended.text == ANSWER
    assert ended.reports == []
    assert ended.outcome.usage.output


async def test_where_it_crashes_itself_the_turn_ends_with_a_cause(url: str, http: HttpEdge):
    """Mocked answers of its responses API cannot be streamed by this version (docs/peers.md)."""
    ended = await ask(url, http, "mocked", api=Api.OPENAI_RESPONSES)
    assert {report.error_type for report in ended.reports} == {"server_error"}


async def test_a_wrong_key_is_no_outage(url: str, http: HttpEdge):
    ended = await ask(url, http, "mocked", key="sk-another-key-of-the-test-0123456789")
    (report,) = ended.reports  # asked once: nothing of it would change
    assert report.error_type == "invalid_request"  # its own words: "No connected db."


async def test_its_cost_is_read(url: str, http: HttpEdge):
    assert (await ask(url, http, "mocked")).outcome.usage.cost


FAILURES = {
    "throttled": "rate_limited",
    "broken": "server_error",
    "overflowing": "context_overflow",
    "unknown-model": "model_not_found",
}


@pytest.mark.parametrize(("model", "cause"), FAILURES.items(), ids=FAILURES)
async def test_its_errors_are_told_apart(url: str, http: HttpEdge, model: str, cause: str):
    ended = await ask(url, http, model)
    assert isinstance(ended.event, TurnFailed)
    assert {report.error_type for report in ended.reports} == {cause}
    assert all(KEY not in report.message for report in ended.reports)


async def test_many_turns_at_once(url: str, http: HttpEdge):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(url, http, "mocked")) for _ in range(30)]
    assert {task.result().text for task in tasks} == {ANSWER}
