"""The door of OpenAI's Responses API: what it accepts, and its words where it does not.

Comes in: a decoded request. Goes out: an `Ask`, or a `Fault` in OpenAI's words.
"""

import msgspec

from ops.rehearsal.judges.openai_responses_shapes import (
    CallItem,
    Item,
    MessageItem,
    OutputItem,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ResponsesRequest,
    SearchItem,
)
from ops.rehearsal.judges.shape import Complaint, bearer_token, shaped, text_of
from ops.rehearsal.signatures import is_signed_by
from ops.rehearsal.values import Ask, Facts, Fault
from ops.rehearsal.voices.openai_chat import error_body

VENDOR = "openai"
ID_PREFIXES = {
    MessageItem: "msg",
    ReasoningItem: "rs",
    CallItem: "fc",
    SearchItem: "ws",
}
"""How the ids of items begin; the API refuses others."""


class ResponsesJudge:
    """The Responses API."""

    vendor = VENDOR

    def key(self, facts: Facts) -> str | None:
        """The bearer token."""
        return bearer_token(facts)

    def error_body(self, fault: Fault) -> bytes:
        """OpenAI's `{"error": {...}}`."""
        return error_body(fault)

    def read(self, body: object, facts: Facts) -> Ask | Fault:
        """Checks shape, ids, call pairs and reasoning."""
        try:
            request = shaped(body, ResponsesRequest)
            items = _items(request)
            for at, item in enumerate(items):
                _check_id(item, at)
                _check_message(item, at)
            _check_pairs(items)
            _check_reasoning(items, request)
        except Complaint as complaint:
            return Fault(
                status=400,
                message=complaint.message,
                type="invalid_request_error",
                param=complaint.param,
                code=complaint.code,
            )
        return _ask(request, items)


def _items(request: ResponsesRequest) -> list[Item]:
    if isinstance(request.input, str):
        return [MessageItem(role="user", content=request.input)]
    if not request.input:
        raise Complaint("Invalid 'input': empty array.", "input", "empty_array")
    items: list[Item] = []
    for at, raw in enumerate(request.input):
        tagged = raw if "type" in raw else {**raw, "type": "message"}  # the short form of a message
        try:
            items.append(msgspec.convert(tagged, Item))
        except msgspec.ValidationError as exc:
            raise Complaint(f"Invalid value for 'input[{at}]': {exc}.", f"input[{at}]") from exc
    return items


def _check_id(item: Item, at: int) -> None:
    prefix = ID_PREFIXES.get(type(item))
    if prefix is not None and item.id is not None and not item.id.startswith(prefix):
        raise Complaint(
            f"Invalid 'input[{at}].id': '{item.id}'. Expected an ID that begins with '{prefix}'.",
            f"input[{at}].id",
            "invalid_value",
        )


def _check_message(item: Item, at: int) -> None:
    if not isinstance(item, MessageItem) or isinstance(item.content, str):
        return
    is_models = item.role == "assistant"
    for index, part in enumerate(item.content):
        if isinstance(part, OutputText | OutputRefusal) != is_models:
            expected = "'output_text' and 'refusal'" if is_models else "'input_text', 'input_image'"
            raise Complaint(
                f"Invalid value: '{part.__struct_config__.tag}'. Supported values are: {expected}.",
                f"input[{at}].content[{index}]",
                "invalid_value",
            )


def _check_pairs(items: list[Item]) -> None:
    """Each call has an output somewhere behind it, and each output a call before it."""
    waiting: dict[str, None] = {}
    for at, item in enumerate(items):
        if isinstance(item, CallItem):
            if item.call_id in waiting:
                raise Complaint(f"Duplicate call_id {item.call_id}.", f"input[{at}].call_id")
            waiting[item.call_id] = None
        elif isinstance(item, OutputItem):
            if item.call_id not in waiting:
                raise Complaint(
                    f"No tool call found for function call output with call_id {item.call_id}.",
                    "input",
                )
            del waiting[item.call_id]
    if waiting:
        raise Complaint(f"No tool output found for function call {next(iter(waiting))}.", "input")


def _check_reasoning(items: list[Item], request: ResponsesRequest) -> None:
    for at, item in enumerate(items):
        if not isinstance(item, ReasoningItem):
            continue
        encrypted = item.encrypted_content
        if encrypted is None:
            raise Complaint(
                f"Item with id '{item.id}' not found. Items are not persisted when `store` is set "
                "to false. Try again with `store` set to true, or remove this item from your "
                "input.",
                "input",
            )
        if not is_signed_by(encrypted, VENDOR, request.model):
            raise Complaint(
                f"The encrypted content for item {item.id} could not be verified.",
                None,
                "invalid_encrypted_content",
            )
        following = items[at + 1] if at + 1 < len(items) else None
        is_models = isinstance(following, CallItem | ReasoningItem | SearchItem) or (
            isinstance(following, MessageItem) and following.role == "assistant"
        )
        if not is_models:
            raise Complaint(
                f"Item '{item.id}' of type 'reasoning' was provided without its required "
                "following item.",
                "input",
            )


def _ask(request: ResponsesRequest, items: list[Item]) -> Ask:
    prompts = [
        text_of(item.content)
        for item in items
        if isinstance(item, MessageItem) and item.role == "user"
    ]
    reasoning = request.reasoning
    results: list[str] = []
    for item in reversed(items):
        if not isinstance(item, OutputItem):
            break
        results.append(text_of(item.output))
    return Ask(
        model=request.model,
        prompt=prompts[-1] if prompts else "",
        tool_results=tuple(reversed(results)),
        tools=tuple(tool.name for tool in request.tools or []),
        blocks=(
            *(msgspec.json.encode(tool).decode() for tool in request.tools or []),
            request.instructions or "",
            *(msgspec.json.encode(item).decode() for item in items),
        ),
        wants_thinking=reasoning is None or reasoning.effort != "none",
        is_streamed=request.stream,
    )
