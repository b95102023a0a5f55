"""The larger quirks of vendors that speak chat completions, one function each.

Comes in: pieces of a request body. Goes out: the same, as a vendor wants them. Pure; only
`openai_chat_request` imports it.
"""

import re
from typing import assert_never

from shared.messages import ContentBlock, OpaqueBlock, ThinkingBlock
from worker.providers.bodies import PLACEHOLDER, Json, calls_of
from worker.providers.quirks import Quirks, ThinkingStyle
from worker.providers.requests import ModelRequest


def thinking_settings(request: ModelRequest, quirks: Quirks) -> Json:
    """How the target is told to reason, or not to; nothing where the turn leaves it open."""
    effort = request.sampling.thinking
    if effort is None:
        return {}
    is_on = effort != "off"
    match quirks.thinking:
        case ThinkingStyle.NONE:
            return {}
        case ThinkingStyle.EFFORT:
            word = effort if is_on else least_effort(request.target.model)
            return {} if word is None else {"reasoning_effort": word}
        case ThinkingStyle.TYPE:
            return {"thinking": {"type": "enabled" if is_on else "disabled"}}
        case ThinkingStyle.ENABLE:
            return {"enable_thinking": is_on}
        case ThinkingStyle.TEMPLATE:
            return {"chat_template_kwargs": {"enable_thinking": is_on}}
        case ThinkingStyle.OPENROUTER:
            return {"reasoning": {"effort": effort} if is_on else {"enabled": False}}
        case _:
            assert_never(quirks.thinking)


_LEAST = (
    # The first match holds. OpenAI's reasoning guide: `none` came with gpt-5.1, `minimal` with
    # gpt-5, before that `low` is the least; models without reasoning refuse the parameter.
    (re.compile(r"gpt-5\.\d"), "none"),
    (re.compile(r"gpt-5"), "minimal"),
    (re.compile(r"o\d|.*gpt-oss"), "low"),
    (re.compile(r"gpt-|chatgpt-"), None),
)


def least_effort(model: str) -> str | None:
    """The word that switches reasoning off, or as far down as the model allows."""
    for pattern, word in _LEAST:
        if pattern.match(model):
            return word
    return "none"


_SIGNING = ("anthropic/", "google/")
"""Models whose unsigned texts OpenRouter refuses to hand on (issues #418, #423)."""


def reasoning_details_of(blocks: list[ContentBlock], model: str) -> list[Json]:
    """Reasoning as OpenRouter's list (openrouter.ai/docs, preserving reasoning).

    Encrypted entries, which only their maker reads, travel as opaque blocks.
    """
    details: list[Json] = []
    for block in blocks:
        match block:
            case OpaqueBlock(raw=dict() as raw) if raw.get("type") == "reasoning.encrypted":
                details.append(raw)
            case ThinkingBlock(thinking_signature=str() as signature):
                text = block.thinking
                details.append({"type": "reasoning.text", "text": text, "signature": signature})
            case ThinkingBlock() if not model.startswith(_SIGNING):
                details.append({"type": "reasoning.text", "text": block.thinking})
            case _:
                pass
    return details


def call_signatures_of(blocks: list[ContentBlock]) -> list[Json]:
    """Signatures of calls as encrypted entries that carry the call's id."""
    return [
        {"type": "reasoning.encrypted", "data": call.thought_signature, "id": call.id}
        for call in calls_of(blocks)
        if call.thought_signature is not None
    ]


def mark_cache(messages: list[Json]) -> None:
    """Sets cache breakpoints: behind the instructions, and behind the last user's message.

    The first keeps what never changes, the second what the next turn will find again. Every such
    message is a list of parts, marked or not: the next turn must send it as this one did.
    """
    marked = [message for message in messages if message["role"] in {"system", "user"}]
    for message in marked:
        message["content"] = _parts(message["content"])
    for message in marked[:1] + marked[-1:]:
        parts = list(_parts(message["content"]))
        texts = [at for at, part in enumerate(parts) if part["type"] == "text"]
        if texts:
            at = texts[-1]
            parts[at] = {**parts[at], "cache_control": {"type": "ephemeral"}}
            message["content"] = parts


def alternated(messages: list[Json]) -> list[Json]:
    """Makes roles alternate after one system message, as the templates of local models demand."""
    runs: list[list[Json]] = []
    for message in messages:
        if runs and _continues(runs[-1][-1], message):
            runs[-1].append(message)
            continue
        last_role = runs[-1][-1]["role"] if runs else None
        if message["role"] == "assistant" and last_role in {None, "system", "developer"}:
            runs.append([{"role": "user", "content": PLACEHOLDER}])
        runs.append([message])
    return [_merged(run) for run in runs]


def _continues(last: Json, message: Json) -> bool:
    """Whether two messages are one turn of the same speaker; results stand between otherwise."""
    is_same = message["role"] == last["role"] and message["role"] in {"user", "assistant"}
    return is_same and "tool_calls" not in last


def _merged(run: list[Json]) -> Json:
    contents = [message["content"] for message in run]
    if any(isinstance(content, list) for content in contents):
        content: object = [part for content in contents for part in _parts(content)]
    else:
        content = "\n\n".join(str(text) for text in contents if text) or contents[-1]
    fields: Json = {}
    for message in run:
        fields.update(message)
    return {**fields, "content": content}


def _parts(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []
