"""What `sanitize_messages_for_target` promises for every history and every target."""

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

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
from tests.support.histories import histories, targets
from worker.normalize.history import sanitize_messages_for_target

Target = tuple[str, str]
modes = st.sampled_from(["text", "drop"])

LEGAL = {
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "openai": r"[A-Za-z0-9_-]{1,40}",
    "my-box": r"[A-Za-z0-9_-]{1,40}",
    "openai-responses": r"[A-Za-z0-9_-]{1,64}",
    "mistral": r"[A-Za-z0-9]{9}",
    "google": r"(?s:.+)",
}


def calls_of(message: Message) -> list[ToolCallBlock]:
    assert isinstance(message.content, list)
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


@given(histories, targets, modes, st.booleans())
def test_the_result_is_stable_and_the_input_untouched(
    history: list[Message], target: Target, mode: str, vision: bool
):
    before = msgspec.to_builtins(history)
    options = {"foreign_thinking": mode, "vision": vision}
    once = sanitize_messages_for_target(history, *target, **options)  # type: ignore[arg-type]  # drawn
    assert sanitize_messages_for_target(history, *target, **options) == once  # type: ignore[arg-type]  # drawn
    assert sanitize_messages_for_target(once, *target, **options) == once  # type: ignore[arg-type]  # drawn
    assert msgspec.to_builtins(history) == before


@given(histories, targets)
def test_the_result_is_utf8_json(history: list[Message], target: Target):
    fitted = sanitize_messages_for_target(history, *target)
    assert msgspec.json.decode(msgspec.json.encode(fitted), type=list[Message]) == fitted


@given(histories, targets)
def test_every_call_has_one_result_behind_it_and_no_result_stands_alone(
    history: list[Message], target: Target
):
    fitted = sanitize_messages_for_target(history, *target)
    at = 0
    while at < len(fitted):
        message = fitted[at]
        assert message.role is not Role.TOOL
        ids = [call.id for call in calls_of(message)]
        results = fitted[at + 1 : at + 1 + len(ids)]
        assert [result.tool_call_id for result in results] == ids
        assert all(result.role is Role.TOOL for result in results)
        at += 1 + len(ids)


@given(histories, targets)
def test_ids_are_unique_and_legal(history: list[Message], target: Target):
    fitted = sanitize_messages_for_target(history, *target)
    ids = [call.id for message in fitted for call in calls_of(message)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(LEGAL[target[0]], call_id) for call_id in ids)


def origin(message: Message, block: ContentBlock) -> tuple[str | None, str | None]:
    """Who made a block: what it says itself counts before its message."""
    if isinstance(block, ImageBlock):
        return message.provider, message.model
    return block.provider or message.provider, block.model or message.model


@given(histories, targets)
def test_nothing_of_another_model_is_left(history: list[Message], target: Target):
    for message in sanitize_messages_for_target(history, *target):
        assert isinstance(message.content, list)
        for block in message.content:
            if origin(message, block) == target:
                continue
            assert not isinstance(block, ThinkingBlock | OpaqueBlock)
            if isinstance(block, ToolCallBlock):
                assert (block.thought_signature, block.item_id) == (None, None)
            if isinstance(block, TextBlock):
                assert block.text.strip()
                assert (block.text_signature, block.item_id) == (None, None)


@given(histories, targets, histories)
def test_a_longer_history_keeps_the_ids_it_had(
    history: list[Message], target: Target, more: list[Message]
):
    # Prompt caches compare prefixes, and replays compare bytes.
    before = [
        call.id for m in sanitize_messages_for_target(history, *target) for call in calls_of(m)
    ]
    after = [
        call.id
        for m in sanitize_messages_for_target([*history, *more], *target)
        for call in calls_of(m)
    ]
    assert after[: len(before)] == before
