"""What of a question may come back in an error: everything that people, models and tools said.

Comes in: a question, and how its attempt ended. Goes out: the same end without quotations. Pure;
the stream of an attempt uses it.
"""

from collections.abc import Iterator

import msgspec

from shared.messages import (
    ContentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.quotes import MIN_QUOTE_CHARS, without_quotes
from worker.providers.requests import ModelRequest
from worker.turn.attempt import AttemptResult, Failed


def without_prompts(result: AttemptResult, question: ModelRequest) -> AttemptResult:
    """The result with nothing in its error that people said: providers quote what they refuse."""
    if not isinstance(result, Failed) or not result.error.message:
        return result
    message = without_quotes(result.error.message, _texts_of(question))
    return Failed(error=msgspec.structs.replace(result.error, message=message))


def _texts_of(question: ModelRequest) -> Iterator[str]:
    """All that people, models and tools said in a question."""
    if question.system is not None:
        yield question.system
    for message in question.messages:
        if isinstance(message.content, str):
            yield message.content
            continue
        for block in message.content:
            yield from _texts_in(block)


def _texts_in(block: ContentBlock) -> Iterator[str]:
    match block:
        case TextBlock(text=text):
            yield text
        case ThinkingBlock(thinking=text):
            yield text
        case ToolCallBlock(arguments=arguments):
            yield from _strings_in(arguments)
        case ImageBlock(url=url):
            if url is not None:
                yield url
        case OpaqueBlock(raw=raw):
            # What has no blank is a word of the protocol, which an error must be able to name, or
            # data that nobody can read.
            yield from (text for text in _strings_in(raw) if " " in text)


def _strings_in(value: object) -> Iterator[str]:
    """Every string in JSON, however deep; a name only where it is longer than names are."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from (str(name) for name in fields if len(str(name)) >= MIN_QUOTE_CHARS)
                waiting.extend(fields.values())
            case list() | tuple() as items:
                waiting.extend(items)
            case _:
                pass  # numbers and words of JSON
