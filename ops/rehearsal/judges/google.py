"""The door of Google's generateContent: what it accepts, and its words where it does not.

Comes in: a decoded request. Goes out: an `Ask`, or a `Fault` in Google's words. A model whose name
begins with `gemini-3` wants the signatures of its calls back, as Google's page on thought
signatures says.
"""

import base64
import binascii

import msgspec

from ops.rehearsal.judges.google_shapes import (
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    Part,
)
from ops.rehearsal.judges.shape import Complaint, shaped
from ops.rehearsal.signatures import is_signed_by
from ops.rehearsal.values import Ask, Facts, Fault
from ops.rehearsal.voices.google import error_body

VENDOR = "google"
UNCHECKED = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""Google's own words for calls that another model made."""
_DATA_FIELDS = (
    "text",
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
)


class GoogleJudge:
    """The Gemini API."""

    vendor = VENDOR

    def key(self, facts: Facts) -> str | None:
        """The header, or the query as older clients send it."""
        return facts.headers.get("x-goog-api-key") or facts.query.get("key") or None

    def error_body(self, fault: Fault) -> bytes:
        """Google's `{"error": {"code": ..., "status": ...}}`."""
        return error_body(fault)

    def read(self, body: object, facts: Facts) -> Ask | Fault:
        """Checks shape, parts, turns, calls and signatures."""
        model = facts.model or ""
        try:
            request = shaped(body, GenerateRequest)
            for at, content in enumerate(request.contents):
                for index, part in enumerate(content.parts):
                    _check_part(part, content, f"contents[{at}].parts[{index}]", model)
            _check_turns(request.contents)
            if model.startswith("gemini-3"):
                _check_signatures(request.contents)
        except Complaint as complaint:
            return Fault(status=400, message=complaint.message, type="INVALID_ARGUMENT")
        return _ask(request, model)


def _check_part(part: Part, content: Content, place: str, model: str) -> None:
    present = [name for name in _DATA_FIELDS if getattr(part, name) is not None]
    if len(present) != 1 or (part.text == "" and part.thought_signature is None):
        raise Complaint(
            f"* GenerateContentRequest.{place}.data: required oneof field 'data' must have one "
            "initialized field"
        )
    is_models = content.role == "model"
    if part.function_call is not None and not is_models:
        raise Complaint(f"Function call parts must be in a model turn ({place}).")
    if part.function_response is not None and is_models:
        raise Complaint(f"Function response parts must be in a user turn ({place}).")
    signature = part.thought_signature
    if signature is None or signature in UNCHECKED:
        return
    try:
        base64.b64decode(signature, validate=True)
    except binascii.Error:
        raise Complaint(
            f"Invalid value at '{place}.thought_signature' (TYPE_BYTES), Base64 decoding failed "
            f'for "{signature}"'
        ) from None
    if not is_signed_by(signature, VENDOR, model):
        raise Complaint("Corrupted thought signature.")


def _check_turns(contents: list[Content]) -> None:
    if contents[0].role == "model":
        raise Complaint(
            "Please ensure that multiturn requests alternate between user and model, "
            "beginning with a user turn."
        )
    if contents[-1].role == "model":
        raise Complaint("Please ensure that multiturn requests end with a user turn.")
    waiting: list[FunctionCall] = []
    for content in contents:
        answers = [
            part.function_response for part in content.parts if part.function_response is not None
        ]
        _check_answers(waiting, answers)
        if answers and len(answers) < len(content.parts):
            raise Complaint("Function response parts cannot be mixed with other parts.")
        waiting = [part.function_call for part in content.parts if part.function_call is not None]


def _check_answers(calls: list[FunctionCall], answers: list[FunctionResponse]) -> None:
    if len(calls) != len(answers):
        raise Complaint(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
    for call, answer in zip(calls, answers, strict=True):
        if (call.name, call.id) != (answer.name, answer.id):
            raise Complaint(
                "Please ensure that function response turn comes immediately after a function "
                f"call turn and answers it: {call.name!r} was called, {answer.name!r} answered."
            )


def _check_signatures(contents: list[Content]) -> None:
    """In the running turn, the first call of each step must carry a signature."""
    for content in reversed(contents):
        if content.role != "model" and all(
            part.function_response is None for part in content.parts
        ):
            return
        calls = [part for part in content.parts if part.function_call is not None]
        if calls and calls[0].thought_signature is None:
            name = calls[0].function_call and calls[0].function_call.name
            raise Complaint(
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                f"degraded model performance. Additional data, function call `{name}`."
            )


def _ask(request: GenerateRequest, model: str) -> Ask:
    tools = [declared for tool in request.tools or [] for declared in tool.function_declarations]
    contents = request.contents
    config = request.generation_config
    thinking = config.thinking_config if config is not None else None
    prompts = [text for content in contents if content.role != "model" and (text := _text(content))]
    system = [request.system_instruction] if request.system_instruction is not None else []
    return Ask(
        model=model,
        prompt=prompts[-1] if prompts else "",
        tool_results=tuple(
            " ".join(str(value) for value in part.function_response.response.values())
            for part in contents[-1].parts
            if part.function_response is not None
        ),
        tools=tuple(tool.name for tool in tools),
        blocks=(
            *(msgspec.json.encode(tool).decode() for tool in tools),
            *(msgspec.json.encode(content).decode() for content in [*system, *contents]),
        ),
        wants_thinking=thinking is not None and thinking.include_thoughts,
    )


def _text(content: Content) -> str:
    return "\n".join(part.text for part in content.parts if part.text)
