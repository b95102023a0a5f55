"""A conversation that changes its provider in the middle, over all pairs of the four formats."""

from collections.abc import AsyncIterator
from itertools import product

import msgspec
import pytest
import pytest_asyncio

from shared.messages import Message, Role, ThinkingBlock, ToolCallBlock
from shared.turns import Api, Sampling, StopReason, Target, ToolSpec
from tests.support.talk import FORMATS, Talk, answered, talking, text_of
from worker.providers.requests import ModelRequest

LOOK_UP = ToolSpec(
    name="look_up",
    description="Looks something up.",
    parameters={"properties": {"query": {"type": "string"}}, "required": ["query"]},
)
MODELS = {
    Api.ANTHROPIC: Target(api=Api.ANTHROPIC, provider="anthropic", model="claude-a/tools@0"),
    Api.OPENAI_CHAT: Target(api=Api.OPENAI_CHAT, provider="rehearsal", model="ds/tools@0"),
    Api.OPENAI_RESPONSES: Target(
        api=Api.OPENAI_RESPONSES, provider="openai", model="gpt-5/tools@0"
    ),
    Api.GOOGLE: Target(api=Api.GOOGLE, provider="google", model="gemini-3-pro/tools@0"),
}
PAIRS = list(product(FORMATS, FORMATS))


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talk() -> AsyncIterator[Talk]:
    async with talking() as running:
        yield running


def opened(api: Api) -> ModelRequest:
    return ModelRequest(
        target=MODELS[api],
        messages=[Message(role=Role.USER, content="What is the weather?")],
        system="Be kind.",
        tools=(LOOK_UP,),
        sampling=Sampling(thinking="low"),
    )


def to(request: ModelRequest, api: Api) -> ModelRequest:
    return msgspec.structs.replace(request, target=MODELS[api])


def and_then(request: ModelRequest, words: str) -> ModelRequest:
    more = Message(role=Role.USER, content=words)
    return msgspec.structs.replace(request, messages=[*request.messages, more])


@pytest.mark.parametrize("api", FORMATS)
async def test_a_tool_round_ends_with_the_model_that_began_it(talk: Talk, api: Api):
    request = opened(api)
    called = await talk.done(request)
    assert called.stop_reason is StopReason.TOOL_USE
    assert len([block for block in called.content if isinstance(block, ToolCallBlock)]) == 2
    ended = await talk.done(answered(request, called))
    assert text_of(ended).startswith("Both are in: sunny")


@pytest.mark.parametrize("api", [Api.ANTHROPIC, Api.OPENAI_CHAT, Api.OPENAI_RESPONSES])
async def test_reasoning_goes_back_to_its_own_model(talk: Talk, api: Api):
    request = opened(api)
    called = await talk.done(request)
    assert isinstance(called.content[0], ThinkingBlock)
    await talk.done(answered(request, called))
    sent = bytes(talk.provider.log.last().body)
    assert b"neither depends on the other" in sent


@pytest.mark.parametrize(("one", "two"), PAIRS)
async def test_the_next_turn_goes_to_another_provider(talk: Talk, one: Api, two: Api):
    request = opened(one)
    request = answered(request, await talk.done(request))
    request = answered(request, await talk.done(request))
    called = await talk.done(to(and_then(request, "And tomorrow?"), two))
    assert called.stop_reason is StopReason.TOOL_USE
    back = answered(to(and_then(request, "And tomorrow?"), two), called)
    ended = await talk.done(to(back, one))
    assert text_of(ended).startswith("Both are in: sunny")


@pytest.mark.parametrize(("one", "two"), PAIRS)
async def test_the_provider_changes_within_a_tool_round(talk: Talk, one: Api, two: Api):
    request = opened(one)
    request = answered(request, await talk.done(request))
    ended = await talk.done(to(request, two))
    assert text_of(ended).startswith("Both are in: sunny")
    if one is not two:
        assert b"neither depends on the other" not in bytes(talk.provider.log.last().body)


@pytest.mark.parametrize("api", FORMATS)
async def test_the_second_turn_shows_its_cached_share(talk: Talk, api: Api):
    # Longer than the 1,024 tokens that vendors begin to cache at.
    plain = msgspec.structs.replace(MODELS[api], model=MODELS[api].model.replace("tools", "plain"))
    long = "These are the rules of the house. " * 200
    request = msgspec.structs.replace(opened(api), target=plain, system=long)
    first = await talk.done(request)
    assert not first.usage.get("cache_read")
    request = and_then(answered(request, first), "And tomorrow?")
    second = await talk.done(request)
    entry = talk.provider.log.last()
    assert second.usage["cache_read"] == entry.cached_tokens > 1024
    assert second.usage["input"] == entry.prompt_tokens > entry.cached_tokens
