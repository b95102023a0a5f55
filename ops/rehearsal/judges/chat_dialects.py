"""Vendors that speak chat completions, each with what it adds to OpenAI's format or refuses of it.

Comes in: a decoded body. Goes out: the body without the vendor's own fields, for the judge of
OpenAI's format, or a complaint. One row is one vendor; sources stand beside the rules.
"""

import re
from itertools import pairwise

import msgspec

from ops.rehearsal.judges.shape import Complaint


class ChatDialect(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor's dialect.

    Args:
        name: first part of its path here: `/mistral/v1/chat/completions`.
        images: whether images are taken.
        developer: whether the role `developer` is known.
        key_header: header of the key, None for a bearer token.
        body: fields of its own at the top level.
        message: fields of its own in assistant messages.
        part: fields of its own in content parts.
        refuses: fields of OpenAI's that it does not know.
        call_id: what an id must look like.
        max_stops: how many stop strings it takes.
        alternates: user and assistant must take turns, the user first.
        continues: an assistant's message at the end is continued; else a user must speak last.
        ends_with_prefix: an assistant's message at the end needs `prefix: true`.
        user_after_tool: whether a user may speak directly behind a tool result.
        demands_reasoning: assistant messages need `reasoning_content` while thinking is on.
        demands_tools: a history with calls needs `tools`.
    """

    name: str
    images: bool = True
    developer: bool = False
    key_header: str | None = None
    body: frozenset[str] = frozenset()
    message: frozenset[str] = frozenset()
    part: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    call_id: str | None = None
    max_stops: int = 4
    alternates: bool = False
    continues: bool = False
    ends_with_prefix: bool = False
    user_after_tool: bool = True
    demands_reasoning: bool = False
    demands_tools: bool = False


OPENAI = ChatDialect(name="openai", developer=True)
REHEARSAL = ChatDialect(
    name="rehearsal",
    developer=True,
    body=frozenset({"thinking"}),
    message=frozenset({"reasoning_content", "reasoning"}),
)
"""The default door: OpenAI's rules, and reasoning taken back as most compatible servers do."""
_TEMPLATE = ChatDialect(
    name="vllm",
    body=frozenset({"chat_template_kwargs"}),
    message=frozenset({"reasoning_content", "reasoning"}),
    alternates=True,
)
DIALECTS = (
    OPENAI,
    msgspec.structs.replace(OPENAI, name="azure", key_header="api-key"),
    REHEARSAL,
    ChatDialect(
        name="openrouter",
        developer=True,
        body=frozenset({"reasoning", "provider", "models", "transforms"}),
        message=frozenset({"reasoning", "reasoning_details"}),
        part=frozenset({"cache_control"}),
    ),
    ChatDialect(
        name="deepseek",
        body=frozenset({"thinking"}),
        message=frozenset({"reasoning_content", "prefix"}),
        max_stops=16,
        images=False,
        demands_reasoning=True,  # hermes #15353, openclaw #73417
    ),
    ChatDialect(name="groq", message=frozenset({"reasoning"})),
    ChatDialect(
        name="mistral",
        message=frozenset({"prefix"}),
        refuses=frozenset({"stream_options", "reasoning_effort", "max_completion_tokens"}),
        call_id="[a-zA-Z0-9]{9}",
        ends_with_prefix=True,
        user_after_tool=False,
    ),
    ChatDialect(name="xai"),
    ChatDialect(
        name="zai",
        body=frozenset({"thinking", "tool_stream"}),
        message=frozenset({"reasoning_content"}),
        max_stops=1,
    ),
    ChatDialect(
        name="moonshot",
        body=frozenset({"thinking"}),
        message=frozenset({"reasoning_content"}),
        max_stops=5,
    ),
    ChatDialect(
        name="qwen",
        body=frozenset({"enable_thinking"}),
        message=frozenset({"reasoning_content"}),
    ),
    _TEMPLATE,
    msgspec.structs.replace(_TEMPLATE, name="nvidia"),
    msgspec.structs.replace(_TEMPLATE, name="llamacpp", continues=True),
    msgspec.structs.replace(_TEMPLATE, name="lmstudio"),
    msgspec.structs.replace(_TEMPLATE, name="custom"),
    ChatDialect(name="ollama", message=frozenset({"reasoning"})),
    ChatDialect(name="perplexity", alternates=True),
    ChatDialect(
        name="litellm",
        message=frozenset({"reasoning_content"}),
        demands_tools=True,
    ),
)


def plain_chat(body: object, dialect: ChatDialect) -> object:
    """Checks a vendor's own rules and takes its own fields away.

    Raises:
        Complaint: a rule of the vendor is broken.
    """
    if not isinstance(body, dict):
        return body
    for name in dialect.refuses & body.keys():
        raise Complaint(f"Extra inputs are not permitted: {name}", name)
    _check_stops(body.get("stop"), dialect)
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(item, dict) for item in messages):
        return body
    if not dialect.developer and any(item.get("role") == "developer" for item in messages):
        raise Complaint("unknown variant `developer`, expected one of `system`, `user`, ...")
    if dialect.alternates:
        _check_alternation(messages, dialect)
    _check_end(messages, dialect)
    _check_tools(body, messages, dialect)
    _check_reasoning(body, messages, dialect)
    if not dialect.images and any(_has_image(message) for message in messages):
        raise Complaint("unknown variant `image_url`, expected `text`")
    plain = {name: value for name, value in body.items() if name not in dialect.body}
    return {**plain, "messages": [_plain_message(message, dialect) for message in messages]}


def _plain_message(message: dict[str, object], dialect: ChatDialect) -> dict[str, object]:
    own = dialect.message if message.get("role") == "assistant" else frozenset()
    plain = {name: value for name, value in message.items() if name not in own}
    content = plain.get("content")
    if isinstance(content, list):
        plain["content"] = [
            {name: value for name, value in part.items() if name not in dialect.part}
            for part in content
        ]
    return plain


def _has_image(message: dict[str, object]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _check_stops(stop: object, dialect: ChatDialect) -> None:
    if isinstance(stop, list) and len(stop) > dialect.max_stops:
        raise Complaint(f"stop: at most {dialect.max_stops} stop words are supported", "stop")


def _check_alternation(messages: list[dict[str, object]], dialect: ChatDialect) -> None:
    roles = [str(message.get("role")) for message in messages]
    if roles[:1] in (["system"], ["developer"]):
        roles = roles[1:]
    if "system" in roles or "developer" in roles:
        raise Complaint("System message must be at the beginning.")
    spoken = [
        role
        for role, message in zip(roles, messages[-len(roles) :], strict=True)
        if role != "tool" and not message.get("tool_calls")
    ]
    is_alternating = all(one != two for one, two in pairwise(spoken))
    if roles[:1] != ["user"] or not is_alternating:
        raise Complaint(
            "Conversation roles must alternate user/assistant/user/assistant/..., "
            "after an optional system message."
        )
    if roles[-1] == "assistant" and not dialect.continues:
        raise Complaint("Last message must have role `user` or `tool`.")


def _check_end(messages: list[dict[str, object]], dialect: ChatDialect) -> None:
    last = messages[-1] if messages else {}
    if dialect.ends_with_prefix and last.get("role") == "assistant" and not last.get("prefix"):
        raise Complaint(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            "assistant"
        )
    if not dialect.user_after_tool:
        for one, two in pairwise(messages):
            if (one.get("role"), two.get("role")) == ("tool", "user"):
                raise Complaint("Unexpected role 'user' after role 'tool'")


def _check_tools(
    body: dict[str, object], messages: list[dict[str, object]], dialect: ChatDialect
) -> None:
    calls = [call for message in messages for call in _calls(message)]
    if dialect.demands_tools and calls and not body.get("tools"):
        raise Complaint(
            "litellm.UnsupportedParamsError: Anthropic expects the `tools=` param to be passed in."
        )
    if dialect.call_id is not None:
        for call in calls:
            if not re.fullmatch(dialect.call_id, str(call.get("id"))):
                raise Complaint(
                    f"Tool call id was {call.get('id')} but must be a-z, A-Z, 0-9, with a length "
                    "of 9."
                )


def _calls(message: dict[str, object]) -> list[dict[str, object]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _check_reasoning(
    body: dict[str, object], messages: list[dict[str, object]], dialect: ChatDialect
) -> None:
    if not dialect.demands_reasoning or body.get("thinking") == {"type": "disabled"}:
        return
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and "reasoning_content" not in message:
            raise Complaint(
                f"Missing `reasoning_content` field in the assistant message at message index {at}."
            )
