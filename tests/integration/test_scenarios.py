"""Each scenario in each wire format, read by the real normalizer."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from ops.rehearsal.scenarios import load_scenarios
from shared.messages import Message, Role, ThinkingBlock, ToolCallBlock
from shared.turns import Api, Sampling, StopReason, Target, ToolSpec
from tests.support.talk import FORMATS, KEYS, Talk, talking, text_of
from worker.normalize.events import TextDelta
from worker.providers.building import build_request
from worker.providers.endpoints import server_endpoint
from worker.providers.requests import ModelRequest

PROVIDERS = {
    Api.ANTHROPIC: "anthropic",
    Api.OPENAI_CHAT: "rehearsal",
    Api.OPENAI_RESPONSES: "openai",
    Api.GOOGLE: "google",
}
STOPS = {
    "plain": StopReason.STOP,
    "long": StopReason.STOP,
    "burst": StopReason.STOP,
    "echo": StopReason.STOP,
    "empty": StopReason.STOP,
    "heartbeat": StopReason.STOP,
    "spill": StopReason.STOP,
    "unicode": StopReason.STOP,
    "verbatim": StopReason.STOP,
    "length": StopReason.LENGTH,
    "refusal": StopReason.CONTENT_FILTER,
    "think_tags": StopReason.STOP,
    "reasoning": StopReason.STOP,
    "tool": StopReason.TOOL_USE,
    "tools": StopReason.TOOL_USE,
}
HTTP_FAULTS = sorted(
    name
    for name, scenario in load_scenarios().items()
    if scenario.fault and scenario.fault_times is None
)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talk() -> AsyncIterator[Talk]:
    async with talking() as running:
        yield running


def asked(api: Api, scenario: str, prompt: str = "hi") -> ModelRequest:
    prefix = {Api.GOOGLE: "gemini-2.5-flash/", Api.ANTHROPIC: "claude-a/"}.get(api, "")
    return ModelRequest(
        target=Target(api=api, provider=PROVIDERS[api], model=f"{prefix}{scenario}@0"),
        messages=[Message(role=Role.USER, content=prompt)],
        tools=(ToolSpec(name="look_up"),),
        sampling=Sampling(thinking="low"),
    )


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("scenario", STOPS)
async def test_a_scenario_ends_as_it_should(talk: Talk, scenario: str, api: Api):
    done = await talk.done(asked(api, scenario))
    assert done.stop_reason is STOPS[scenario]
    said = "".join(getattr(beat, "text", "") for beat in load_scenarios()[scenario].beats)
    if scenario in {"plain", "long", "length", "think_tags", "unicode", "verbatim"}:
        assert text_of(done) == said
    if scenario == "reasoning":
        assert isinstance(done.content[0], ThinkingBlock)
    calls = [block for block in done.content if isinstance(block, ToolCallBlock)]
    assert len(calls) == {"tool": 1, "tools": 2}.get(scenario, 0)
    entry = talk.provider.log.last()
    assert entry.writes[-1].visible_chars == len(text_of(done))


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(
    ("scenario", "code"), [("cut_clean", "stream_truncated"), ("stream_error", None)]
)
async def test_a_scenario_breaks_off(talk: Talk, scenario: str, code: str | None, api: Api):
    events = await talk.events(asked(api, scenario))
    failed = await talk.failed(asked(api, scenario))
    assert any(isinstance(event, TextDelta) for event in events)
    if code is not None:
        assert failed.reason.code == code


@pytest.mark.parametrize("api", FORMATS)
async def test_a_cut_call_is_never_whole(talk: Talk, api: Api):
    done = await talk.done(asked(api, "tool_cut"))
    calls = [block for block in done.content if isinstance(block, ToolCallBlock)]
    assert all(call.arguments_truncated for call in calls)
    assert done.stop_reason is StopReason.LENGTH


@pytest.mark.parametrize("api", FORMATS)
async def test_the_connection_drops(talk: Talk, api: Api):
    with pytest.raises(httpx.RemoteProtocolError):
        await talk.events(asked(api, "cut"))
    while talk.provider.log.last().outcome == "running":
        await asyncio.sleep(0)
    assert talk.provider.log.last().outcome == "cut"


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("fault", HTTP_FAULTS)
async def test_an_http_error_is_in_the_vendors_words(talk: Talk, fault: str, api: Api):
    request = asked(api, fault)
    endpoint = server_endpoint(PROVIDERS[api], {PROVIDERS[api]: talk.url}, KEYS)
    http = build_request(request, endpoint)
    async with httpx.AsyncClient() as client:
        response = await client.request(
            http.method, http.url, headers=list(http.headers), content=http.body
        )
    assert response.status_code >= 400
    error = response.json()["error"]
    assert error["message"]
    assert ("status" in error) == (api is Api.GOOGLE)


@pytest.mark.parametrize("api", FORMATS)
async def test_a_flaky_server_answers_the_second_try(talk: Talk, api: Api):
    request = asked(api, "flaky", prompt=f"Are you there, {api}?")
    with pytest.raises(AssertionError, match=r"(?i)overloaded"):
        await talk.done(request)
    assert text_of(await talk.done(request)).startswith("The second try")


async def test_google_without_alt_sse_is_one_array(talk: Talk):
    request = asked(Api.GOOGLE, "plain")
    http = build_request(request, server_endpoint("google", {"google": talk.url}, KEYS))
    async with httpx.AsyncClient() as client:
        response = await client.post(
            http.url.removesuffix("?alt=sse"), headers=list(http.headers), content=http.body
        )
    parts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in response.json()]
    said = load_scenarios()["plain"].beats[0]
    assert "".join(parts) == getattr(said, "text", None)
    assert response.headers["content-type"].startswith("application/json")


async def test_an_error_in_an_array_leaves_it_readable(talk: Talk):
    request = asked(Api.GOOGLE, "stream_error")
    http = build_request(request, server_endpoint("google", {"google": talk.url}, KEYS))
    async with httpx.AsyncClient() as client:
        response = await client.post(
            http.url.removesuffix("?alt=sse"), headers=list(http.headers), content=http.body
        )
    assert response.json()[-1]["error"]["status"] == "UNAVAILABLE"


async def test_a_slow_scenario_keeps_its_pace(talk: Talk):
    request = asked(Api.OPENAI_CHAT, "plain")
    slow = ModelRequest(
        target=Target(provider="rehearsal", model="plain@200"), messages=request.messages
    )
    asked_s = time.monotonic()  # not from the first piece on, which may be late
    await talk.done(slow)
    spoken = [write for write in talk.provider.log.last().writes if write.visible_chars]
    pieces = len({write.visible_chars for write in spoken})
    assert spoken[-1].monotonic_s - asked_s >= (pieces - 2) / 200
