"""A conversation with the rehearsal provider over its socket: request, stream, answer, history.

Comes in: `ModelRequest`s. Goes out: what the real normalizer made of the streamed bytes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec

from ops.rehearsal.app import Provider
from ops.rehearsal.server import rehearsing
from shared.messages import Message, Role, TextBlock, ToolCallBlock
from shared.turns import Api
from worker.normalize.events import Done, StreamEvent, StreamFailed
from worker.providers import normalizer_for
from worker.providers.building import api_of, build_request
from worker.providers.endpoints import server_endpoint
from worker.providers.quirks import resolve
from worker.providers.requests import ModelRequest

KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-rehearsed",
    "OPENAI_API_KEY": "sk-rehearsed",
    "GEMINI_API_KEY": "AIza-rehearsed",
}


class Talk:
    """A running rehearsal, and clients that believe it is every vendor."""

    def __init__(self, url: str, provider: Provider, client: httpx.AsyncClient) -> None:
        self.url = url
        self.provider = provider
        self._client = client

    async def events(self, request: ModelRequest) -> list[StreamEvent]:
        """Every event of an answer. Fails where the provider refused the request."""
        target = request.target
        endpoints = {target.provider: self.url}
        http = build_request(request, server_endpoint(target.provider, endpoints, KEYS))
        api = api_of(target.api, resolve(target.provider))
        names = [tool.name for tool in request.tools]
        normalizer = normalizer_for(target.provider, target.model, names, api)
        events: list[StreamEvent] = []
        async with self._client.stream(
            http.method, http.url, headers=list(http.headers), content=http.body
        ) as response:
            if response.status_code != 200:
                raise AssertionError((await response.aread(), http.body))
            async for data in response.aiter_bytes():
                events.extend(normalizer.feed(data))
        return events + normalizer.flush()

    async def done(self, request: ModelRequest) -> Done:
        """The end of an answer that ended well."""
        last = (await self.events(request))[-1]
        assert isinstance(last, Done), last
        return last

    async def failed(self, request: ModelRequest) -> StreamFailed:
        """The end of an answer that did not."""
        last = (await self.events(request))[-1]
        assert isinstance(last, StreamFailed), last
        return last


@asynccontextmanager
async def talking() -> AsyncIterator[Talk]:
    """Serves the rehearsal for the length of a block."""
    async with rehearsing() as (url, provider), httpx.AsyncClient() as client:
        yield Talk(url, provider, client)


def answered(request: ModelRequest, done: Done) -> ModelRequest:
    """The request with the answer in its history, and a result behind each of its calls."""
    target = request.target
    answer = Message(
        role=Role.ASSISTANT,
        content=done.content,
        provider=target.provider,
        model=target.model,
        stop_reason=done.stop_reason.value,
    )
    results = [
        Message(
            role=Role.TOOL,
            content=[TextBlock(text=f"sunny ({block.id})")],
            tool_call_id=block.id,
            tool_name=block.name,
        )
        for block in done.content
        if isinstance(block, ToolCallBlock)
    ]
    return msgspec.structs.replace(request, messages=[*request.messages, answer, *results])


def text_of(done: Done) -> str:
    """The visible text of an answer."""
    return "".join(block.text for block in done.content if isinstance(block, TextBlock))


FORMATS = [api for api in Api if api is not Api.AUTO]
"""The four."""
