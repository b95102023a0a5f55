"""What a finished stream becomes in the history of the next request of a tool round.

Comes in: the end of a stream, and what its tools gave. Goes out: messages. Pure; the turn's driver
and replay import it.
"""

from collections.abc import Mapping, Sequence

import msgspec

from shared.messages import (
    ContentBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.turns import Target
from worker.normalize.events import Done


def answer_message(
    target: Target,
    done: Done,
    *,
    shown: Mapping[int, str] | None = None,
    encrypted: Sequence[object] = (),
) -> Message:
    """The assistant's message of an answer.

    Reasoning, calls and the vendor's own blocks go back byte for byte. The maker is the model that
    was asked for, not the dated name in the answer, so that it is recognized the next time.

    Args:
        target: who was asked.
        done: the end of the stream.
        shown: by its place, what stands in the conversation of each text, where the rooms behind
            the normalizer may have changed it. A text that they changed loses its signature.
        encrypted: OpenRouter's encrypted reasoning (`Meta.reasoning_encrypted`).
    """
    own = [
        OpaqueBlock(provider=target.provider, model=target.model, raw=entry) for entry in encrypted
    ]
    content = done.content if shown is None else _as_shown(done.content, shown)
    at = _after_reasoning(content)
    return Message(
        role=Role.ASSISTANT,
        content=[*content[:at], *own, *content[at:]],
        provider=target.provider,
        model=target.model,
        stop_reason=done.stop_reason.value,
    )


def result_message(call: ToolCallBlock, text: str, *, is_error: bool = False) -> Message:
    """What a tool gave, or why it was not run."""
    return Message(
        role=Role.TOOL,
        content=[TextBlock(text=text)],
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=is_error,
    )


def _as_shown(content: Sequence[ContentBlock], shown: Mapping[int, str]) -> list[ContentBlock]:
    blocks: list[ContentBlock] = []
    for at, block in enumerate(content):
        if not isinstance(block, TextBlock) or block.text == shown.get(at):
            blocks.append(block)
        elif text := shown.get(at):
            blocks.append(msgspec.structs.replace(block, text=text, text_signature=None))
    return blocks


def _after_reasoning(content: Sequence[ContentBlock]) -> int:
    at = 0
    while at < len(content) and isinstance(content[at], ThinkingBlock):
        at += 1
    return at
