"""What we send, the vendors' own SDKs would send: to the same address, the same body.

The SDKs are installed for this file only; where one is missing its tests are skipped, loudly.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import pytest

from shared.messages import ImageBlock, Message, TextBlock, ThinkingBlock
from shared.secrets import Secret
from shared.turns import Api, Sampling
from tests.support.asked import TOOL, asked, built, call, result, said, user
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest

anthropic = pytest.importorskip("anthropic", reason="the anthropic SDK is not installed")
openai = pytest.importorskip("openai", reason="the openai SDK is not installed")
genai = pytest.importorskip("google.genai", reason="the google-genai SDK is not installed")
pydantic = pytest.importorskip("pydantic")

KEY = "sk-test"
_NAME = re.compile("_([a-z])")
IMAGE = ImageBlock(mime_type="image/png", data="AAAA")
SAMPLING = Sampling(temperature=0.5, stop=("END",), max_tokens=900)
THINKING = Sampling(thinking="medium", max_tokens=900)


def history(by: tuple[str, str], signature: str) -> tuple[Message, ...]:
    """A round with everything: images, reasoning, text, two calls, one of which failed."""
    thinking = ThinkingBlock(thinking="hm", thinking_signature=signature)
    return (
        user("look", IMAGE),
        said(thinking, TextBlock(text="I roll."), call("c1", n=6), call("c2"), by=by),
        result("c1", "6", IMAGE),
        result("c2", "no dice", is_error=True),
    )


def requests_to(provider: str, model: str, api: Api, signature: str) -> list[ModelRequest]:
    """The kinds of requests that one target gets."""
    rich: dict[str, Any] = {
        "system": "Be kind.",
        "tools": (TOOL,),
        "conversation": "c-1",
        "api": api,
    }
    turn = history((provider, model), signature)
    return [
        asked(provider, model, api=api),
        asked(provider, model, user("hi"), said("Dear"), user("go"), sampling=SAMPLING, **rich),
        asked(provider, model, *turn, sampling=THINKING, **rich),
        asked(provider, model, *turn, said("Six."), user("again"), **rich),
    ]


class Caught:
    """What an SDK sent: a transport that answers nothing and remembers the request.

    `library` is the HTTP library that the SDK is built on, httpx or its successor.
    """

    def __init__(self, library: Any = httpx) -> None:
        self._library = library
        self.request: Any = None

    def client(self) -> Any:
        return self._library.Client(transport=self._library.MockTransport(self._answer))

    def _answer(self, request: Any) -> Any:
        self.request = request
        headers = {"content-type": "text/event-stream"}
        return self._library.Response(200, headers=headers, content=b"")


def same(caught: Caught, ours: HttpRequest, header: str) -> None:
    """Same address, same key, same body."""
    assert str(caught.request.url) == ours.url
    assert caught.request.headers[header] == dict(ours.headers)[header]
    assert json.loads(caught.request.content) == json.loads(ours.body)


def unwound(value: Any) -> Any:
    """Plain containers; pydantic checks an iterable only while it is read."""
    if isinstance(value, Mapping):
        return {name: unwound(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [unwound(item) for item in value]
    return value


def is_typed(body: Any, params: Any) -> None:
    """The body has the SDK's own parameter types; a key that they do not know would be lost."""
    assert unwound(pydantic.TypeAdapter(params).validate_python(body)) == body


def endpoint(base_url: str) -> Endpoint:
    return Endpoint(base_url=base_url, key=Secret(KEY))


ANTHROPIC = [
    *requests_to("anthropic", "claude-sonnet-5", Api.ANTHROPIC, "U0lH"),
    *requests_to("anthropic", "claude-opus-4-7", Api.ANTHROPIC, "U0lH"),
]


@pytest.mark.parametrize("request_", ANTHROPIC)
def test_the_anthropic_sdk_sends_the_same(request_: ModelRequest):
    ours = built(request_, endpoint("https://api.anthropic.com"))
    caught = Caught(pytest.importorskip("httpx2"))
    # The SDK's own default is a bearer token by now; it still knows the header that proxies want.
    sdk = anthropic.Anthropic(http_client=caught.client(), default_headers={"X-Api-Key": KEY})
    body = json.loads(ours.body)
    sdk.messages.create(**body)
    same(caught, ours, "x-api-key")
    is_typed(body, anthropic.types.message_create_params.MessageCreateParamsStreaming)


CHAT = [
    *requests_to("openai", "gpt-4.1", Api.OPENAI_CHAT, "U0lH"),
    *requests_to("openai", "gpt-5.1", Api.OPENAI_CHAT, "U0lH"),
]


@pytest.mark.parametrize("request_", CHAT)
def test_the_openai_sdk_sends_the_same_chat(request_: ModelRequest):
    ours = built(request_, endpoint("https://api.openai.com/v1"))
    caught = Caught()
    sdk = openai.OpenAI(api_key=KEY, http_client=caught.client())
    body = json.loads(ours.body)
    sdk.chat.completions.create(**body)
    same(caught, ours, "authorization")
    is_typed(body, openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)


SIGNATURE = '{"id":"rs_1","encrypted_content":"RU5D"}'
RESPONSES = [
    *requests_to("openai", "gpt-4.1", Api.OPENAI_RESPONSES, SIGNATURE),
    *requests_to("openai", "gpt-5.1", Api.OPENAI_RESPONSES, SIGNATURE),
]


@pytest.mark.parametrize("request_", RESPONSES)
def test_the_openai_sdk_sends_the_same_responses(request_: ModelRequest):
    ours = built(request_, endpoint("https://api.openai.com/v1"))
    caught = Caught()
    sdk = openai.OpenAI(api_key=KEY, http_client=caught.client())
    body = json.loads(ours.body)
    sdk.responses.create(**body)
    same(caught, ours, "authorization")
    is_typed(body, openai.types.responses.response_create_params.ResponseCreateParamsStreaming)


GOOGLE = [
    *requests_to("google", "gemini-2.5-flash", Api.GOOGLE, "U0lHTkVE"),
    *requests_to("google", "gemini-3-pro", Api.GOOGLE, "U0lHTkVE"),
]


@pytest.mark.parametrize("request_", GOOGLE)
def test_the_google_sdk_sends_the_same(request_: ModelRequest):
    ours = built(request_, endpoint("https://generativelanguage.googleapis.com/v1"))
    caught = Caught()
    types = genai.types
    options = types.HttpOptions(httpx_client=caught.client())
    sdk = genai.Client(api_key=KEY, http_options=options)
    body = json.loads(ours.body)
    config = {name: value for name, value in body.items() if name != "contents"}
    settings = config.pop("generationConfig")
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    list(
        sdk.models.generate_content_stream(
            model=request_.target.model,
            contents=contents,
            config=types.GenerateContentConfig.model_validate({**config, **settings}),
        )
    )
    assert str(caught.request.url) == ours.url
    assert caught.request.headers["x-goog-api-key"] == KEY
    sent = json.loads(caught.request.content)
    sent.get("systemInstruction", {}).pop("role", None)  # the SDK adds one, the API ignores it
    assert _camel(sent) == _camel(body)


def _camel(value: Any) -> Any:
    """The SDK writes some names with underscores; the API reads both."""
    if isinstance(value, dict):
        return {_NAME.sub(_capital, name): _camel(item) for name, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value


def _capital(match: re.Match[str]) -> str:
    return match[1].upper()
