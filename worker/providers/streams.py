"""Which wire format a stream speaks: by the caller's word, the provider's name, or a look.

Comes in: provider, model, tools. Goes out: a `StreamNormalizer`. `normalizer_for` is the seed's
`new`; the driver, replay and tests come in here.
"""

from collections.abc import Iterable

from shared.turns import Api
from worker.normalize.normalizer import DialectReader, MakeReader, Reader, StreamNormalizer
from worker.normalize.reply import Reply
from worker.providers.openai_chat import OpenAIChat


def read_openai_chat(reply: Reply) -> Reader:
    """A reader of OpenAI chat completions."""
    return DialectReader(OpenAIChat(reply), reply)


READERS: dict[Api, MakeReader] = {
    Api.OPENAI_CHAT: read_openai_chat,
}


def normalizer_for(
    provider: str, model: str, tools: Iterable[str] = (), api: Api = Api.AUTO
) -> StreamNormalizer:
    """A normalizer for one stream of `provider`.

    Args:
        provider: a name of the provider table, or any other for a custom endpoint.
        model: the requested model.
        tools: names of the tools that the model was offered.
        api: the wire format; `AUTO` takes the provider's, or looks at the first events.
    """
    return StreamNormalizer(
        READERS.get(api, read_openai_chat), provider=provider, model=model, tools=tools
    )
