"""What a report may say of a request and of an empty reply: counts and roles, never content.

Comes in: the messages of a request, counts of its stream. Goes out: bounded `metadata` of an
`ErrorReport`, in the seed's names. Pure; the driver imports it. No prompt text, tool arguments,
media addresses or bytes; what is not known, or came as an invalid number, is None, never 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from shared.messages import ImageBlock, Message, OpaqueBlock, Role, ThinkingBlock, ToolCallBlock

LAST_ROLES = 5
"""Roles of the end of the dialogue: enough to see an order that a provider refuses."""

_KINDS = {
    ImageBlock: "image",
    ThinkingBlock: "thinking",
    ToolCallBlock: "toolCall",
    OpaqueBlock: "opaque",
}


def request_diagnostics(
    messages: Sequence[Message], *, model: str, received_chunks: int, elapsed_ms: int
) -> dict[str, object]:
    """The seed's `requestDiagnostics`, the same for every provider.

    Args:
        messages: the request's dialogue as it was sent.
        model: the model that was really asked.
        received_chunks: events of the stream before it failed.
        elapsed_ms: from the request to the failure.
    """
    dialogue = [one for one in messages if one.role not in {Role.SYSTEM, Role.DEVELOPER}]
    final = dialogue[-1] if dialogue else None
    return {
        "requestDiagnostics": {
            "model": model,
            "lastRoles": [one.role.value for one in dialogue[-LAST_ROLES:]],
            "finalTurnParts": part_counts(final) if final else {},
            "hasPrefill": final is not None and final.role is Role.ASSISTANT,
            "hasToolHistory": any(map(_has_tools, dialogue)),
            "receivedChunks": received_chunks,
            "elapsedMs": elapsed_ms,
        }
    }


def part_counts(message: Message) -> dict[str, int]:
    """How many parts of which kind a message has."""
    if isinstance(message.content, str):
        return {"text": 1}
    return dict(Counter(_KINDS.get(type(block), "text") for block in message.content))


def empty_reply_diagnostics(
    usage: Mapping[str, object],
    *,
    finish_reason: str | None,
    reasoning_present: bool,
    output_limit: int | None,
    request_id: str | None,
) -> dict[str, object]:
    """What explains a reply without text: DeepSeek's are the frequent case (finding 10)."""
    return {
        "emptyReply": {
            "finishReason": finish_reason,
            "tokens": {
                name: _count(usage.get(name)) for name in ("input", "output", "reasoning", "total")
            },
            "reasoningPresent": reasoning_present,
            "outputLimit": output_limit,
            "providerRequestId": request_id,
        }
    }


def _has_tools(message: Message) -> bool:
    if message.role is Role.TOOL:
        return True
    blocks = message.content if isinstance(message.content, list) else []
    return any(isinstance(block, ToolCallBlock) for block in blocks)


def _count(value: object) -> int | None:
    """A count that is one: a whole number of at least 0."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None
