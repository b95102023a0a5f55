"""The door of Anthropic's Messages API: what it accepts, and its words where it does not.

Comes in: a decoded request. Goes out: an `Ask`, or a `Fault` in Anthropic's words. The sentences
are those of the API's own 400 answers, as users have reported them.
"""

import re
from collections.abc import Iterator

import msgspec

from ops.rehearsal.judges.anthropic_shapes import (
    Block,
    ImageBlock,
    Message,
    MessagesRequest,
    RedactedBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingAdaptive,
    ThinkingBlock,
    ThinkingEnabled,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
)
from ops.rehearsal.judges.shape import Complaint, shaped, text_of
from ops.rehearsal.signatures import is_signed_by
from ops.rehearsal.values import Ask, Facts, Fault
from ops.rehearsal.voices.anthropic import error_body

VENDOR = "anthropic"
MAX_BREAKPOINTS = 4
"""Prompt caching guide: up to 4 cache breakpoints."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TO_4_5 = re.compile(
    r"claude-(?:[123]|instant|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8})?(?!-?\d))"
)
"""Claude up to 4.5; later models take no sampling settings and no prefill."""


class AnthropicJudge:
    """The Messages API."""

    vendor = VENDOR

    def key(self, facts: Facts) -> str | None:
        """The `x-api-key` header."""
        return facts.headers.get("x-api-key") or None

    def error_body(self, fault: Fault) -> bytes:
        """Anthropic's `{"type": "error", "error": {...}}`."""
        return error_body(fault)

    def read(self, body: object, facts: Facts) -> Ask | Fault:
        """Checks shape, order of roles, tool pairs, reasoning, cache breakpoints."""
        try:
            if not facts.headers.get("anthropic-version"):
                raise Complaint("anthropic-version: header is required")
            request = shaped(body, MessagesRequest)
            _check_options(request)
            _check_tools(request.tools or [])
            _check_contents(request)
            _check_pairs(request.messages)
            _check_thinking(request)
        except Complaint as complaint:
            message = complaint.message
            return Fault(status=400, message=message, type="invalid_request_error")
        return _ask(request)


def _check_options(request: MessagesRequest) -> None:
    if any(not stop.strip() for stop in request.stop_sequences or []):
        raise Complaint("stop_sequences: each stop sequence must contain non-whitespace")
    if _is_adaptive(request.model):
        for name in ("temperature", "top_p", "top_k"):
            if getattr(request, name) is not None:
                raise Complaint(f"{name}: `{name}` is not supported by this model")
    if request.temperature is not None and request.top_p is not None:
        raise Complaint(
            "`temperature` and `top_p` cannot both be specified for this model. "
            "Please use only one."
        )
    breakpoints = sum(_has_breakpoint(block) for block in _cacheable(request))
    if breakpoints > MAX_BREAKPOINTS:
        raise Complaint(
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {breakpoints}."
        )


def _check_tools(tools: list[Tool]) -> None:
    for at, tool in enumerate(tools):
        if _TOOL_NAME.fullmatch(tool.name) is None:
            raise Complaint(
                f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        if tool.input_schema.get("type") != "object":
            raise Complaint(f"tools.{at}.custom.input_schema.type: Field required")
    if len({tool.name for tool in tools}) < len(tools):
        raise Complaint("tools: Tool names must be unique.")


def _check_contents(request: MessagesRequest) -> None:
    messages = request.messages
    if messages[0].role != "user":
        raise Complaint('messages: first message must use the "user" role')
    for at, message in enumerate(messages):
        is_last = at == len(messages) - 1
        if not message.content and not (is_last and message.role == "assistant"):
            raise Complaint(
                f"messages.{at}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )
        for index, block in enumerate(_blocks(message)):
            _check_block(block, message, f"messages.{at}.content.{index}", request.model)
    last = messages[-1]
    if _is_begun(last):
        _check_prefill(last, request.model)


def _is_adaptive(model: str) -> bool:
    return "claude" in model and _TO_4_5.search(model) is None


def _is_begun(last: Message) -> bool:
    """Whether an answer was begun for the model; a paused turn of own tools is none."""
    is_paused = any(isinstance(block, ServerToolUseBlock) for block in _blocks(last))
    return last.role == "assistant" and not is_paused


def _check_prefill(message: Message, model: str) -> None:
    if _is_adaptive(model):
        raise Complaint(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
    text = text_of(message.content)
    if text != text.rstrip():
        raise Complaint("messages: final assistant content cannot end with trailing whitespace")


def _check_block(block: Block, message: Message, place: str, model: str) -> None:
    _check_place(block, message, place)
    match block:
        case TextBlock(text=text) if not text.strip():
            needs = "contain non-whitespace text" if text else "be non-empty"
            raise Complaint(f"messages: text content blocks must {needs}")
        case ToolUseBlock(id=call_id) if _ID.fullmatch(call_id) is None:
            raise Complaint(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        case ThinkingBlock(thinking=text, signature=signature):
            if not is_signed_by(signature, VENDOR, model, text):
                raise Complaint(f"{place}: Invalid `signature` in `thinking` block")
        case RedactedBlock(data=data):
            if not is_signed_by(data, VENDOR, model):
                raise Complaint(f"{place}: Invalid `data` in `redacted_thinking` block")
        case ToolResultBlock(content=list() as parts):
            for part in parts:
                _check_block(part, message, place, model)
        case _:
            pass


def _check_place(block: Block, message: Message, place: str) -> None:
    is_spoken = isinstance(block, TextBlock | ImageBlock | ToolResultBlock)
    if message.role == "user" and not is_spoken:
        raise Complaint(f"{place}: `{_tag(block)}` blocks are not permitted in `user` messages")
    if message.role == "assistant" and isinstance(block, ImageBlock | ToolResultBlock):
        raise Complaint(
            f"{place}: `{_tag(block)}` blocks are not permitted in `assistant` messages"
        )


def _tag(block: Block) -> str:
    return str(block.__struct_config__.tag)


def _check_pairs(messages: list[Message]) -> None:
    """Calls are answered in the very next message, before anything else that it holds."""
    waiting: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        answered = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
        for call_id in answered:
            if call_id not in waiting:
                raise Complaint(
                    f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {call_id}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message."
                )
        if missing := [call_id for call_id in waiting if call_id not in answered]:
            raise Complaint(
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        head = blocks[: len(answered)]
        if len(set(answered)) < len(answered) or not all(
            isinstance(block, ToolResultBlock) for block in head
        ):
            raise Complaint(f"messages.{at}.content: tool_result blocks must come first, once each")
        waiting = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
        for index, call_id in enumerate(waiting):
            if call_id in seen:
                raise Complaint(f"messages.{at}.content.{index}: `tool_use` ids must be unique")
            seen.add(call_id)
    if waiting:
        raise Complaint(
            f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` "
            f"blocks immediately after: {', '.join(waiting)}."
        )


def _check_thinking(request: MessagesRequest) -> None:
    thinking = request.thinking
    if not isinstance(thinking, ThinkingEnabled | ThinkingAdaptive):
        return
    if request.temperature not in {None, 1} or request.top_k is not None:
        raise Complaint("`temperature` may only be set to 1 when thinking is enabled.")
    if _is_begun(request.messages[-1]):
        raise Complaint("Prefilling is not supported when thinking is enabled.")
    if not isinstance(thinking, ThinkingEnabled):
        return
    if thinking.budget_tokens >= request.max_tokens:
        raise Complaint("`max_tokens` must be greater than `thinking.budget_tokens`.")
    _check_round(request.messages)


def _check_round(messages: list[Message]) -> None:
    """In a running tool round the turn that called must begin with its reasoning."""
    for at in range(len(messages) - 1, -1, -1):
        blocks = _blocks(messages[at])
        is_result = any(isinstance(block, ToolResultBlock) for block in blocks)
        if messages[at].role == "user" and not is_result:
            return
        calls = any(isinstance(block, ToolUseBlock) for block in blocks)
        if calls and not isinstance(blocks[0], ThinkingBlock | RedactedBlock):
            raise Complaint(
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{_tag(blocks[0])}`. When `thinking` is enabled, a final `assistant` "
                "message must start with a thinking block (preceeding the lastmost set of "
                "`tool_use` and `tool_result` blocks)."
            )


def _blocks(message: Message) -> list[Block]:
    if isinstance(message.content, str):
        return [TextBlock(text=message.content)] if message.content else []
    return message.content


def _cacheable(request: MessagesRequest) -> Iterator[Tool | Block]:
    """Everything that may carry a breakpoint, in the order of the cache."""
    yield from request.tools or []
    if isinstance(request.system, list):
        yield from request.system
    elif request.system:
        yield TextBlock(text=request.system)
    for message in request.messages:
        yield from _blocks(message)


def _has_breakpoint(block: Tool | Block) -> bool:
    return getattr(block, "cache_control", None) is not None


def _unmarked(block: Tool | Block) -> str:
    """A block as the cache compares it: a breakpoint is no content."""
    if _has_breakpoint(block):
        block = msgspec.structs.replace(block, cache_control=None)
    return msgspec.json.encode(block).decode()


def _ask(request: MessagesRequest) -> Ask:
    users = [message for message in request.messages if message.role == "user"]
    blocks = list(_cacheable(request))
    last = _blocks(request.messages[-1])
    prompts = [text for message in users if (text := text_of(_spoken(message)))]
    return Ask(
        model=request.model,
        prompt=prompts[-1] if prompts else "",
        tool_results=tuple(
            text_of(block.content) for block in last if isinstance(block, ToolResultBlock)
        ),
        tools=tuple(tool.name for tool in request.tools or []),
        blocks=tuple(_unmarked(block) for block in blocks),
        breakpoints=tuple(at for at, block in enumerate(blocks, start=1) if _has_breakpoint(block)),
        wants_thinking=isinstance(request.thinking, ThinkingEnabled | ThinkingAdaptive),
        is_streamed=request.stream,
    )


def _spoken(message: Message) -> list[Block]:
    return [block for block in _blocks(message) if isinstance(block, TextBlock)]
