"""Fits a conversation to the model that will read it: `sanitize_messages_for_target`.

Comes in: a history whose messages were made by any provider. Goes out: the same history without
what belongs to another model (signatures, encrypted reasoning, item ids), with legal unique call
ids, and with exactly one result behind each call. What depends on the syntax of a request is the
builders' work in `worker.providers`. Pure, deterministic, idempotent; builders and replay import
it. The numbers of the rules are those of `docs/decisions/0004-history-rules.md`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, assert_never

import msgspec

from shared.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.redaction import clean
from worker.normalize.call_ids import (
    ANTHROPIC_IDS,
    CHAT_IDS,
    FREE_IDS,
    MISTRAL_IDS,
    RESPONSES_IDS,
    IdMap,
    IdRule,
)

BROKEN = frozenset({"error", "aborted"})
"""Stop reasons of turns that never became part of the conversation."""
NO_RESULT = "No result was recorded for this call."
NO_VISION = "[image not shown: the model cannot read images]"
RAW_ARGUMENTS = "_raw"
"""Key that wraps arguments which are no object: Anthropic and Gemini refuse other types."""
MAX_DEPTH = 64
"""Levels of nested arguments that are kept; no tool's schema nests deeper."""


class TargetRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a target's format asks of a history.

    Args:
        ids: its rule for tool-call ids.
        takes_unsigned_thinking: whether a model may get its own reasoning back without a
            signature. Anthropic refuses that.
    """

    ids: IdRule = CHAT_IDS
    takes_unsigned_thinking: bool = True


_ANTHROPIC = TargetRules(ids=ANTHROPIC_IDS, takes_unsigned_thinking=False)
_GOOGLE = TargetRules(ids=FREE_IDS)
RULES: dict[str, TargetRules] = {
    "anthropic": _ANTHROPIC,
    "bedrock": _ANTHROPIC,
    "google": _GOOGLE,
    "vertex": _GOOGLE,
    "mistral": TargetRules(ids=MISTRAL_IDS),
    "openai-responses": TargetRules(ids=RESPONSES_IDS),
}
"""By provider or format; every other target speaks chat completions."""


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """Who will read the history, and how."""

    provider: str
    model: str
    rules: TargetRules
    foreign_thinking: Literal["text", "drop"]
    vision: bool


class _Call:
    """A call and the result that was found for it."""

    __slots__ = ("block", "result")

    def __init__(self, block: ToolCallBlock) -> None:
        self.block = block
        self.result: Message | None = None


class _Turn:
    """A message that is no result, with its calls; a broken one is not sent on."""

    __slots__ = ("calls", "is_broken", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.is_broken = message.role is Role.ASSISTANT and message.stop_reason in BROKEN
        # Only an assistant's message calls tools; elsewhere such a block is dropped.
        blocks = _blocks(message) if message.role is Role.ASSISTANT else []
        self.calls = [_Call(block) for block in blocks if isinstance(block, ToolCallBlock)]


def sanitize_messages_for_target(
    messages: Sequence[Message],
    provider: str,
    model: str,
    *,
    foreign_thinking: Literal["text", "drop"] = "text",
    vision: bool = True,
    rules: TargetRules | None = None,
) -> list[Message]:
    """Fits a history to a target; the input stays as it is.

    Args:
        messages: the history, oldest first.
        provider: the target's provider; together with `model` it tells what is foreign.
        model: the target's model.
        foreign_thinking: what becomes of readable reasoning that the target cannot take as
            reasoning: plain text, or nothing.
        vision: False replaces each run of images by one note.
        rules: of the target's format; None looks them up by provider.
    """
    target = _Target(
        provider=provider,
        model=model,
        rules=rules or RULES.get(provider, TargetRules()),
        foreign_thinking=foreign_thinking,
        vision=vision,
    )
    ids = IdMap(target.rules.ids)
    fitted: list[Message] = []
    for turn in _paired(_cleaned(message) for message in messages):
        if not turn.is_broken:
            fitted.extend(_fitted(turn, target, ids))
    return fitted


def _cleaned(message: Message) -> Message:
    """Rules 1 and 19: content as blocks, and nothing that UTF-8 cannot hold."""
    return msgspec.structs.replace(
        message,
        content=[_cleaned_block(block) for block in _blocks(message)],
        tool_call_id=message.tool_call_id and clean(message.tool_call_id),
        tool_name=message.tool_name and clean(message.tool_name),
    )


def _cleaned_block(block: ContentBlock) -> ContentBlock:
    fields = {name: _cleaned_value(getattr(block, name)) for name in block.__struct_fields__}
    return msgspec.structs.replace(block, **fields)


def _cleaned_value(value: object, depth: int = 0) -> object:
    if isinstance(value, str):
        return clean(value)
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned_value(item, depth + 1) for item in value]
    return value


def _paired(messages: Iterable[Message]) -> list[_Turn]:
    """Rules 2, 15 and 16: each result stands with the nearest open call of its id, or goes.

    Results of a broken turn find their calls too, and are dropped with them.
    """
    turns: list[_Turn] = []
    # Ids repeat over a history (local servers restart at call_0); the newest group is last.
    open_calls: dict[str, list[list[_Call]]] = {}
    for message in messages:
        if message.role is Role.TOOL:
            _answer(open_calls.get(message.tool_call_id or "", []), message)
            continue
        turn = _Turn(message)
        turns.append(turn)
        groups: dict[str, list[_Call]] = {}
        for call in turn.calls:
            groups.setdefault(call.block.id, []).append(call)
        for call_id, group in groups.items():
            open_calls.setdefault(call_id, []).append(group[::-1])
    return turns


def _answer(groups: list[list[_Call]], result: Message) -> None:
    """A real result closes its call; a synthetic one waits for a real one to replace it."""
    if not groups:
        return
    group = groups[-1]
    if result.synthetic:
        if group[-1].result is None:
            group[-1].result = result
        return
    group.pop().result = result
    if not group:
        groups.pop()


def _fitted(turn: _Turn, target: _Target, ids: IdMap) -> Iterator[Message]:
    """Rules 3 to 14 and 17: a turn as the target may read it, its results right behind it."""
    message = turn.message
    content: list[ContentBlock] = []
    results: list[Message] = []
    calls = iter(turn.calls)
    for block in _without_images(_blocks(message), target):
        if isinstance(block, ToolCallBlock) and message.role is Role.ASSISTANT:
            call_id = ids.legal(block.id)
            content.append(_fitted_call(block, call_id, message, target))
            results.append(_result(next(calls), call_id, target))
        else:
            content.extend(_fitted_block(block, message, target))
    if content:
        yield msgspec.structs.replace(message, content=content)
        yield from results


def _result(call: _Call, call_id: str, target: _Target) -> Message:
    """Rule 14: the result of a call; a missing one is said to be missing, also at the end."""
    if call.result is None:
        return Message(
            role=Role.TOOL,
            tool_call_id=call_id,
            tool_name=call.block.name,
            is_error=True,
            synthetic=True,
            content=[TextBlock(text=NO_RESULT)],
        )
    content = [
        fitted
        for block in _without_images(_blocks(call.result), target)
        for fitted in _fitted_block(block, call.result, target)
    ]
    return msgspec.structs.replace(call.result, tool_call_id=call_id, content=content)


def _fitted_block(block: ContentBlock, message: Message, target: _Target) -> Iterator[ContentBlock]:
    """What becomes of one block: itself, less of it, or nothing."""
    is_same = _is_same(block, message, target)
    match block:
        case TextBlock():
            yield from _fitted_text(block, is_same=is_same)
        case ThinkingBlock():
            yield from _fitted_thinking(block, target, is_same=is_same)
        case OpaqueBlock():  # rule 11
            if is_same:
                yield block
        case ImageBlock():
            yield block
        case ToolCallBlock():
            return
        case _:
            assert_never(block)


def _is_same(block: ContentBlock, message: Message, target: _Target) -> bool:
    """Whether the target itself made the block; who made it must be known (5.1)."""
    if isinstance(block, ImageBlock) or message.role is not Role.ASSISTANT:
        return False
    provider = block.provider or message.provider
    model = block.model or message.model
    return (provider, model) == (target.provider, target.model)


def _fitted_text(block: TextBlock, *, is_same: bool) -> Iterator[TextBlock]:
    """Rules 9 and 17."""
    if is_same:
        if block.text.strip() or block.text_signature is not None:
            yield block
    elif block.text.strip():
        yield msgspec.structs.replace(
            block, text_signature=None, item_id=None, phase=None, citations=None
        )


def _fitted_thinking(
    block: ThinkingBlock, target: _Target, *, is_same: bool
) -> Iterator[ContentBlock]:
    """Rules 4 to 8."""
    if is_same and (block.redacted or block.thinking_signature is not None):
        yield block
    elif block.redacted or not block.thinking.strip():
        return
    elif is_same and target.rules.takes_unsigned_thinking:
        yield block
    elif target.foreign_thinking == "text":
        # Without tags: models imitate them (pi #302, #561).
        yield TextBlock(text=block.thinking)


def _fitted_call(
    block: ToolCallBlock, call_id: str, message: Message, target: _Target
) -> ToolCallBlock:
    """Rules 3, 10, 12 and 13."""
    is_same = _is_same(block, message, target)
    arguments = block.arguments
    return msgspec.structs.replace(
        block,
        id=call_id,
        arguments=arguments if isinstance(arguments, dict) else {RAW_ARGUMENTS: arguments},
        arguments_truncated=False,
        thought_signature=block.thought_signature if is_same else None,
        item_id=block.item_id if is_same else None,
    )


def _without_images(blocks: list[ContentBlock], target: _Target) -> Iterator[ContentBlock]:
    """Rule 18: a model without eyes reads one note for each run of images."""
    in_run = False
    for block in blocks:
        is_image = isinstance(block, ImageBlock) and not target.vision
        if not is_image:
            yield block
        elif not in_run:
            yield TextBlock(text=NO_VISION)
        in_run = is_image


def _blocks(message: Message) -> list[ContentBlock]:
    if isinstance(message.content, str):
        return [TextBlock(text=message.content)]
    return message.content
