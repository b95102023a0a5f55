"""Other people's stacks over the same bytes: SDKs, routers, agent frameworks.

Comes in: the chunks of a stream. Goes out: functions that read them through a rival's whole client
over an in-memory transport, and return how many characters they delivered. A rival that is not
installed is left out (`requirements-rivals.txt`). Names of packages are imported when they are
used, so that the bench runs without any of them.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Run = Callable[[], Awaitable[int]]

PACKAGES = ("openai", "anthropic", "google-genai", "litellm", "pydantic-ai-slim", "httpx-sse")
TOOL = {"name": "submit_report", "parameters": {"type": "object", "properties": {}}}
MESSAGES = [{"role": "user", "content": "hi"}]
MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-flash",
}


def versions() -> dict[str, str]:
    """The versions of the rivals that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def contenders(dialect: str, kind: str, chunks: list[bytes]) -> dict[str, Callable[[], int]]:
    """The installed rivals that read this format, by name."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no download at import
    logging.disable(logging.WARNING)
    loop = asyncio.new_event_loop()
    found: dict[str, Callable[[], int]] = {}
    for name, build in BUILDERS.items():
        try:
            run = build(dialect, kind, chunks)
        except ImportError:
            continue
        if run is not None:
            found[name] = _blocking(loop, run)
    return found


def _blocking(loop: asyncio.AbstractEventLoop, run: Run) -> Callable[[], int]:
    def block() -> int:
        return loop.run_until_complete(_await(run))

    return block


async def _await(run: Run) -> int:
    return await run()


def _client(library: str, chunks: list[bytes]) -> Any:
    """An `AsyncClient` of httpx or httpx2 whose every answer is the stream."""
    httpx = import_module(library)

    class Body(httpx.AsyncByteStream):  # type: ignore[misc, name-defined]  # a base known at run time
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

    class Transport(httpx.AsyncBaseTransport):  # type: ignore[misc, name-defined]  # as above
        async def handle_async_request(self, _: Any) -> Any:
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=headers, stream=Body())

    return httpx.AsyncClient(transport=Transport())


def _openai_client(chunks: list[bytes]) -> Any:
    client = _client("httpx2", chunks)
    return import_module("openai").AsyncOpenAI(api_key="k", http_client=client, max_retries=0)


def _anthropic_client(chunks: list[bytes]) -> Any:
    client = _client("httpx2", chunks)
    return import_module("anthropic").AsyncAnthropic(api_key="k", http_client=client, max_retries=0)


def _google_client(chunks: list[bytes]) -> Any:
    genai = import_module("google.genai")
    options = genai.types.HttpOptions(httpx_async_client=_client("httpx", chunks))
    return genai.Client(api_key="k", http_options=options)


def _openai_chat(dialect: str, _: str, chunks: list[bytes]) -> Run | None:
    if dialect != "openai-chat":
        return None
    client = _openai_client(chunks)

    async def run() -> int:
        stream = await client.chat.completions.create(
            model="gpt-4o", messages=MESSAGES, stream=True
        )
        return sum([_chat_length(chunk) async for chunk in stream])

    return run


def _chat_length(chunk: Any) -> int:
    length = 0
    for choice in chunk.choices:
        delta = choice.delta
        length += len(delta.content or "") + len(getattr(delta, "reasoning_content", None) or "")
        length += sum(len(call.function.arguments or "") for call in delta.tool_calls or ())
    return length


def _openai_responses(dialect: str, _: str, chunks: list[bytes]) -> Run | None:
    if dialect != "openai-responses":
        return None
    client = _openai_client(chunks)

    async def run() -> int:
        stream = await client.responses.create(model="gpt-4o", input="hi", stream=True)
        return sum([len(event.delta) async for event in stream if event.type.endswith(".delta")])

    return run


def _anthropic(dialect: str, _: str, chunks: list[bytes]) -> Run | None:
    if dialect != "anthropic":
        return None
    client = _anthropic_client(chunks)

    async def run() -> int:
        stream = await client.messages.create(
            model="claude-sonnet-4-5", max_tokens=9, messages=MESSAGES, stream=True
        )
        return sum([_anthropic_length(event) async for event in stream])

    return run


def _anthropic_length(event: Any) -> int:
    if event.type != "content_block_delta":
        return 0
    fields = ("text", "thinking", "partial_json")
    return sum(len(getattr(event.delta, name, "")) for name in fields)


def _anthropic_helper(dialect: str, _: str, chunks: list[bytes]) -> Run | None:
    if dialect != "anthropic":
        return None
    client = _anthropic_client(chunks)

    async def run() -> int:
        length = 0
        async with client.messages.stream(
            model="claude-sonnet-4-5", max_tokens=9, messages=MESSAGES
        ) as stream:
            async for event in stream:
                if event.type in ("text", "thinking"):
                    length += len(getattr(event, event.type))
                elif event.type == "input_json":
                    length += len(event.partial_json)
        return length

    return run


def _google(dialect: str, _: str, chunks: list[bytes]) -> Run | None:
    if dialect != "google":
        return None
    client = _google_client(chunks)

    async def run() -> int:
        length = 0
        stream = await client.aio.models.generate_content_stream(
            model="gemini-2.5-flash", contents="hi"
        )
        async for event in stream:
            for part in event.candidates[0].content.parts:
                length += len(part.text or "")
        return length

    return run


def _litellm(dialect: str, kind: str, chunks: list[bytes]) -> Run | None:
    names = {"openai-chat": "openai/", "anthropic": "anthropic/", "google": "gemini/"}
    if dialect not in names:
        return None
    litellm = import_module("litellm")
    if dialect == "openai-chat":
        client = _openai_client(chunks)
    else:
        handler = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
        client = handler(transport=_client("httpx", chunks)._transport)
    options: dict[str, Any] = {"tools": [{"type": "function", "function": TOOL}]}

    async def run() -> int:
        stream = await litellm.acompletion(
            model=names[dialect] + MODELS[dialect],
            messages=MESSAGES,
            stream=True,
            api_key="k",
            client=client,
            **(options if kind == "tool" else {}),
        )
        return sum([_chat_length(chunk) async for chunk in stream])

    return run


def _pydantic_ai(dialect: str, kind: str, chunks: list[bytes]) -> Run | None:
    direct, messages = import_module("pydantic_ai.direct"), import_module("pydantic_ai.messages")
    model = _pydantic_ai_model(dialect, chunks)
    tool = import_module("pydantic_ai.tools").ToolDefinition(
        name=TOOL["name"], parameters_json_schema=TOOL["parameters"]
    )
    parameters = import_module("pydantic_ai.models").ModelRequestParameters(function_tools=[tool])
    request = [messages.ModelRequest.user_text_prompt("hi")]

    async def run() -> int:
        length = 0
        async with direct.model_request_stream(
            model, request, model_request_parameters=parameters if kind == "tool" else None
        ) as stream:
            async for event in stream:
                length += _part_length(event)
        return length

    return run


def _part_length(event: Any) -> int:
    """What an event brings: the beginning of a part, or more of one."""
    if event.event_kind == "part_start":
        return len(getattr(event.part, "content", "") or "")
    if event.event_kind != "part_delta":
        return 0
    arguments = getattr(event.delta, "args_delta", "")
    return len(getattr(event.delta, "content_delta", "") or "") + len(arguments or "")


def _pydantic_ai_model(dialect: str, chunks: list[bytes]) -> Any:
    vendor = dialect.partition("-")[0]
    models = import_module(f"pydantic_ai.models.{vendor}")
    providers = import_module(f"pydantic_ai.providers.{vendor}")
    if vendor == "anthropic":
        provider = providers.AnthropicProvider(anthropic_client=_anthropic_client(chunks))
        return models.AnthropicModel(MODELS[dialect], provider=provider)
    if vendor == "google":
        provider = providers.GoogleProvider(client=_google_client(chunks))
        return models.GoogleModel(MODELS[dialect], provider=provider)
    provider = providers.OpenAIProvider(openai_client=_openai_client(chunks))
    is_chat = dialect == "openai-chat"
    make = models.OpenAIChatModel if is_chat else models.OpenAIResponsesModel
    return make(MODELS[dialect], provider=provider)


def _httpx_sse(_: str, __: str, chunks: list[bytes]) -> Run | None:
    source, client = import_module("httpx_sse").EventSource, _client("httpx", chunks)

    async def run() -> int:
        async with client.stream("POST", "http://x/y", json={}) as response:
            events = [event async for event in source(response).aiter_sse()]
        return sum(len(event.json()) for event in events if event.data.startswith("{"))

    return run


BUILDERS: dict[str, Callable[[str, str, list[bytes]], Run | None]] = {
    "openai chat": _openai_chat,
    "openai responses": _openai_responses,
    "anthropic": _anthropic,
    "anthropic .stream()": _anthropic_helper,
    "google-genai": _google,
    "litellm": _litellm,
    "pydantic-ai": _pydantic_ai,
    "httpx-sse + json": _httpx_sse,
}
