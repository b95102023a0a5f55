"""The door of OpenAI's chat completions: what it accepts, and its words where it does not.

Comes in: a decoded request. Goes out: an `Ask`, or a `Fault` in OpenAI's words. The shapes follow
the API reference (platform.openai.com/docs/api-reference/chat/create); limits carry their source.
"""

import re

import msgspec

from ops.rehearsal.judges.chat_dialects import ChatDialect, plain_chat
from ops.rehearsal.judges.openai_chat_shapes import (
    AssistantMessage,
    ChatRequest,
    Message,
    OfferedTool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ops.rehearsal.judges.shape import Complaint, bearer_token, shaped, text_of
from ops.rehearsal.values import Ask, Facts, Fault
from ops.rehearsal.voices.openai_chat import error_body

MAX_CALL_ID_CHARS = 40
"""Reported by autogen #6377, dify #28987, litellm #17343."""
_OPENAI_HOSTED = frozenset({"openai", "azure", "rehearsal"})
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""API reference, `tools[].function.name`."""


class ChatJudge:
    """Chat completions as OpenAI serves them, or as a vendor with a dialect of them does."""

    vendor = "openai"

    def __init__(self, dialect: ChatDialect) -> None:
        self._dialect = dialect

    def key(self, facts: Facts) -> str | None:
        """The bearer token, or the vendor's own header."""
        if self._dialect.key_header is not None:
            return facts.headers.get(self._dialect.key_header) or None
        return bearer_token(facts)

    def error_body(self, fault: Fault) -> bytes:
        """OpenAI's `{"error": {...}}`."""
        return error_body(fault)

    def read(self, body: object, facts: Facts) -> Ask | Fault:
        """Checks shape, roles, ids and tool pairs."""
        try:
            request = shaped(plain_chat(body, self._dialect), ChatRequest)
            _check_options(request, self._dialect)
            _check_tools(request.tools or [])
            _check_pairs(request.messages)
        except Complaint as complaint:
            return Fault(
                status=400,
                message=complaint.message,
                type="invalid_request_error",
                param=complaint.param,
                code=complaint.code,
            )
        return _ask(request)


def _check_options(request: ChatRequest, dialect: ChatDialect) -> None:
    if request.stream_options is not None and not request.stream:
        raise Complaint(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise Complaint(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
        )
    if request.tools == [] and dialect.name in _OPENAI_HOSTED:
        raise Complaint(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            "tools",
            "empty_array",
        )


def _check_tools(tools: list[OfferedTool]) -> None:
    for at, tool in enumerate(tools):
        if _TOOL_NAME.fullmatch(tool.function.name) is None:
            raise Complaint(
                f"Invalid 'tools[{at}].function.name': string does not match pattern. "
                "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
                f"tools[{at}].function.name",
                "invalid_value",
            )
        kind = tool.function.parameters.get("type", "object")
        if kind != "object":
            raise Complaint(
                f"Invalid schema for function '{tool.function.name}': schema must be a JSON Schema "
                f"of 'type: \"object\"', got 'type: \"{kind}\"'.",
                f"tools[{at}].function.parameters",
                "invalid_function_parameters",
            )


def _check_pairs(messages: list[Message]) -> None:
    """Every call is answered right behind its message, and nothing else is."""
    waiting: list[str] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                raise Complaint(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{at}].role",
                )
            waiting.remove(message.tool_call_id)
            continue
        _check_answered(waiting, at)
        if isinstance(message, AssistantMessage):
            _check_assistant(message, at)
            waiting = [call.id for call in message.tool_calls or []]
    _check_answered(waiting, len(messages))


def _check_answered(waiting: list[str], at: int) -> None:
    if waiting:
        raise Complaint(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            f"messages.[{at}].role",
        )


def _check_assistant(message: AssistantMessage, at: int) -> None:
    if message.content is None and message.refusal is None and not message.tool_calls:
        raise Complaint(
            "Invalid value for 'content': expected a string, got null.",
            f"messages.[{at}].content",
        )
    if message.tool_calls == []:
        raise Complaint(
            f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum "
            "length 1, but got an empty array instead.",
            f"messages[{at}].tool_calls",
            "empty_array",
        )
    ids = [call.id for call in message.tool_calls or []]
    if len(set(ids)) < len(ids):
        raise Complaint(
            f"Duplicate value for 'tool_call_id' in messages[{at}].",
            f"messages[{at}].tool_calls",
        )
    for index, call in enumerate(message.tool_calls or []):
        _check_call(call, f"messages[{at}].tool_calls[{index}]")


def _check_call(call: ToolCall, place: str) -> None:
    if not 0 < len(call.id) <= MAX_CALL_ID_CHARS:
        raise Complaint(
            f"Invalid '{place}.id': string too long. Expected a string with maximum length "
            f"{MAX_CALL_ID_CHARS}, but got a string with length {len(call.id)} instead.",
            f"{place}.id",
            "string_above_max_length",
        )
    if _TOOL_NAME.fullmatch(call.function.name) is None:
        raise Complaint(
            f"Invalid '{place}.function.name': string does not match pattern.",
            f"{place}.function.name",
            "invalid_value",
        )
    try:
        arguments = msgspec.json.decode(call.function.arguments)
    except msgspec.DecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise Complaint(
            # OpenAI itself takes any text; vLLM, SGLang and Anthropic-backed proxies answer this.
            f"Invalid '{place}.function.arguments': expected the JSON of an object.",
            f"{place}.function.arguments",
            "invalid_value",
        )


def _ask(request: ChatRequest) -> Ask:
    messages = request.messages
    users = [message for message in messages if isinstance(message, UserMessage)]
    options = request.stream_options
    return Ask(
        model=request.model,
        prompt=text_of(users[-1].content) if users else "",
        tool_results=_last_results(messages),
        tools=tuple(tool.function.name for tool in request.tools or []),
        blocks=(
            *(msgspec.json.encode(tool).decode() for tool in request.tools or []),
            *(msgspec.json.encode(message).decode() for message in messages),
        ),
        wants_usage=options is not None and options.include_usage,
        wants_thinking=request.reasoning_effort != "none",
        is_streamed=request.stream,
    )


def _last_results(messages: list[Message]) -> tuple[str, ...]:
    results: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(text_of(message.content))
    return tuple(reversed(results))
