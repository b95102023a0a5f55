"""Which wire format a stream speaks: by the caller's word, the provider's name, or a look.

Comes in: provider, model, tools. Goes out: a `StreamNormalizer`. `normalizer_for` is the seed's
`new`; the driver, replay and tests come in here.
"""

from collections.abc import Callable, Iterable

from shared.turns import Api
from worker.normalize.normalizer import DialectReader, MakeReader, Reader, StreamNormalizer
from worker.normalize.payloads import read_object
from worker.normalize.reply import Reply
from worker.normalize.sse import SSEvent
from worker.providers.anthropic import Anthropic
from worker.providers.google import Google
from worker.providers.openai_chat import OpenAIChat
from worker.providers.openai_responses import OpenAIResponses
from worker.providers.quirks import resolve


def read_anthropic(reply: Reply) -> Reader:
    """A reader of Anthropic messages."""
    return DialectReader(Anthropic(reply), reply)


def read_google(reply: Reply) -> Reader:
    """A reader of Google's generateContent."""
    return DialectReader(Google(reply), reply)


def read_openai_chat(reply: Reply) -> Reader:
    """A reader of OpenAI chat completions."""
    return DialectReader(OpenAIChat(reply), reply)


def read_openai_responses(reply: Reply) -> Reader:
    """A reader of OpenAI responses."""
    return DialectReader(OpenAIResponses(reply), reply)


READERS: dict[Api, MakeReader] = {
    Api.ANTHROPIC: read_anthropic,
    Api.GOOGLE: read_google,
    Api.OPENAI_CHAT: read_openai_chat,
    Api.OPENAI_RESPONSES: read_openai_responses,
}
OWN_FORMATS = frozenset({Api.ANTHROPIC, Api.GOOGLE})
"""Formats that a row of the provider table settles; between OpenAI's two the stream tells."""

SIGNS: tuple[tuple[Api, Callable[[dict[str, object], str], bool]], ...] = (
    (Api.OPENAI_CHAT, lambda value, kind: "choices" in value),
    (Api.OPENAI_RESPONSES, lambda value, kind: kind.startswith("response.")),
    (Api.OPENAI_RESPONSES, lambda value, kind: value.get("object") == "response"),
)
"""How a wire format shows itself, by an object and its type (or event name)."""


def normalizer_for(
    provider: str, model: str, tools: Iterable[str] = (), api: Api = Api.AUTO
) -> StreamNormalizer:
    """A normalizer for one stream of `provider`.

    Args:
        provider: a name of the provider table, or any other for a custom endpoint.
        model: the requested model.
        tools: names of the tools that the model was offered.
        api: the wire format; `AUTO` takes the provider's own, or looks at the first events.
    """
    if api is Api.AUTO and (usual := resolve(provider).api) in OWN_FORMATS:
        api = usual
    return StreamNormalizer(
        READERS.get(api, read_openai_chat),
        provider=provider,
        model=model,
        tools=tools,
        sniff=sniff if api is Api.AUTO else None,
    )


def new(provider: str, model: str) -> StreamNormalizer:
    """The seed's `new`: `normalizer_for` without tools, its wire format left to the provider."""
    return normalizer_for(provider, model)


def sniff(event: SSEvent) -> MakeReader | None:
    """Tells the wire format from an event; None where it does not show (an error, a heartbeat)."""
    value = read_object(event.data)
    kind = value.get("type")
    for api, shows in SIGNS:
        if shows(value, kind if isinstance(kind, str) else event.name):
            return READERS[api]
    return None
