"""Google's `streamGenerateContent`, with or without `alt=sse`.

Comes in: events of one stream, each a whole GenerateContentResponse; without `alt=sse` a JSON array
of them, which the normalizer takes apart at the end. Goes out: calls of a `Reply`. Built by
`worker.providers.streams`. Field names: the Gemini API reference. There is no terminator: the reply
is done when the input ends after a finish reason (an empty STOP frame may come first, kelivo#1003).
"""

import msgspec

from shared.turns import StopReason
from worker.normalize.blocks import CallPart, TextPart, ThinkingPart
from worker.normalize.counts import added, count
from worker.normalize.partial_json import parse_object
from worker.normalize.payloads import Payload, objects_of, read_object, write_json
from worker.normalize.reply import MAX_ARGUMENT_CHARS, Reply
from worker.normalize.sse import SSEvent
from worker.normalize.storable import scrub
from worker.providers.google_arguments import Assembly, PartialArg

STOP_REASONS = {"STOP": StopReason.STOP, "MAX_TOKENS": StopReason.LENGTH} | dict.fromkeys(
    (
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "JAILBREAK",
    ),
    StopReason.CONTENT_FILTER,
)
FAILURES = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "LANGUAGE",
        "NO_IMAGE",
    }
)

MAX_UNMERGED_USAGES = 64
"""Merging one costs as much as reading its event; merging many costs little more than one."""


class FunctionCall(msgspec.Struct, gc=False, rename="camel"):
    """A call, whole, or streamed as `partialArgs`."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class GooglePart(msgspec.Struct, gc=False, rename="camel"):
    """A part. Kinds that are not named here are kept as they came."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class GoogleContent(msgspec.Struct, gc=False):
    """The content of a candidate."""

    parts: list[GooglePart] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    """A candidate; only the one with index 0 or none is the reply."""

    index: int | None = None
    content: GoogleContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: object = None


class PromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    """Why a prompt was refused."""

    block_reason: str | None = None


class GoogleUsage(msgspec.Struct, gc=False, rename="camel"):
    """Cumulative counts; a later event may leave one out (pydantic-ai#5886)."""

    prompt_token_count: object = None
    tool_use_prompt_token_count: object = None
    candidates_token_count: object = None
    thoughts_token_count: object = None
    cached_content_token_count: object = None
    total_token_count: object = None


class GoogleEvent(msgspec.Struct, gc=False, rename="camel"):
    """One response object. `response` is the same inside Code Assist's envelope."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: GoogleUsage | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: object = None
    response: "GoogleEvent | None" = None


class Google:
    """Reads response objects: parts go to blocks in the order they come."""

    payload = Payload(GoogleEvent)
    ends_with_done = False

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._open_call: CallPart | None = None
        self._assembly = Assembly()
        """Arguments of `_open_call`."""
        self._raw_event: SSEvent | None = None
        self._raw_parts: list[dict[str, object]] = []
        """Parts of `_raw_event` as they came: read once, however many are of unknown kinds."""
        self._usages: list[GoogleUsage] = []
        """Usage comes with every event, but is read at the end."""
        self._counts: dict[str, int | float | None] = {}
        reply.settle_usage = self._merge_usage

    def read(self, event: SSEvent, message: GoogleEvent) -> None:
        """Reads one response object: an error first, then usage, parts, and the finish reason."""
        reply = self._reply
        if message.response is not None:
            message = message.response
        if message.error:
            reply.fail_with(message.error)
            return
        if not reply.started and not self._begins(message):
            return
        if message.usage_metadata is not None:
            self._usages.append(message.usage_metadata)
            if len(self._usages) == MAX_UNMERGED_USAGES:
                self._merge_usage()
        if message.candidates:
            for candidate in message.candidates:
                if not candidate.index:
                    self._read_candidate(event, candidate)
                    break
        elif message.prompt_feedback is not None and message.prompt_feedback.block_reason:
            reason = message.prompt_feedback.block_reason
            reply.meta.block_reason = reply.meta.raw_stop_reason = reason
            reply.stop = StopReason.CONTENT_FILTER

    def read_body(self, event: SSEvent, message: GoogleEvent) -> None:
        """Reads one object of a body: the array form of a stream, or one whole answer."""
        self.read(event, message)

    def close(self) -> None:
        """Assembles a call that was still open at the finish.

        Cut in a string, or by anything but the model's own end, it must not run.
        """
        call = self._open_call
        if call is not None:
            is_cut = self._assembly.is_open or self._reply.stop is not StopReason.STOP
            call.tainted = call.tainted or is_cut
            self._end_call(call)

    def _begins(self, message: GoogleEvent) -> bool:
        """Starts the reply with the first object that is a response at all."""
        known = (
            message.candidates,
            message.prompt_feedback,
            message.usage_metadata,
            message.model_version,
            message.response_id,
        )
        if all(member is None for member in known):
            self._reply.meta.unknown += 1
            return False
        self._reply.meta.response_id = message.response_id
        self._reply.start(message.model_version)
        return True

    def _read_candidate(self, event: SSEvent, candidate: Candidate) -> None:
        if candidate.content is not None and candidate.content.parts:
            for number, part in enumerate(candidate.content.parts):
                self._read_part(event, number, part)
        meta = self._reply.meta
        if candidate.grounding_metadata is not None:
            meta.grounding = scrub(candidate.grounding_metadata)
        word = candidate.finish_reason
        if not word:
            return
        meta.raw_stop_reason = word
        meta.stop_details = candidate.finish_message or meta.stop_details
        if word in FAILURES:
            self._reply.fail(word, candidate.finish_message or word)
        else:
            self._reply.stop = STOP_REASONS.get(word, StopReason.UNKNOWN)

    def _read_part(self, event: SSEvent, number: int, part: GooglePart) -> None:
        if part.function_call is not None:
            self._read_call(event, number, part)
        elif part.text is None:
            raw = self._raw_part(event, number)
            if raw:
                self._reply.keep(raw, provider="google")
        elif part.thought:  # this alone decides; a signature never makes a part reasoning (pi#631)
            self._reply.think(part.text, part.thought_signature)
        elif part.text:
            self._read_text(part.text, part.thought_signature)
        elif part.thought_signature:
            self._sign(part.thought_signature)

    def _read_text(self, text: str, signature: str | None) -> None:
        current = self._reply.current
        if isinstance(current, TextPart) and current.signature:
            self._reply.open_text()  # what follows a signature is not what was signed
        block = self._reply.text(text)
        if signature:
            block.signature = signature

    def _sign(self, signature: str) -> None:
        """A signature on an empty part belongs to the last block that has none yet."""
        last = self._reply.blocks[-1] if self._reply.blocks else None
        if isinstance(last, ThinkingPart) and not last.signature:
            self._reply.think("", signature, last)
        elif isinstance(last, TextPart) and not last.signature:
            last.signature = signature
        else:
            self._reply.open_text().signature = signature

    def _read_call(self, event: SSEvent, number: int, part: GooglePart) -> None:
        call = part.function_call or FunctionCall()
        if call.name:
            self._begin_call(event, number, part)
        elif self._open_call is None:
            self._reply.meta.unknown += 1
            return
        if self._open_call is not None:
            pieces = call.partial_args or []
            self._continue_call(self._open_call, pieces, more=bool(call.will_continue))

    def _begin_call(self, event: SSEvent, number: int, part: GooglePart) -> None:
        if self._open_call is not None:
            self._end_call(self._open_call)
        wire = part.function_call or FunctionCall()
        call = self._reply.open_call(wire.id or "", wire.name or "")
        self._reply.ensure_id(call)
        call.signature = part.thought_signature or None
        if not wire.partial_args and not wire.will_continue:
            parsed = parse_object(bytes(wire.args))
            if parsed is None:
                arguments = _arguments_of(self._raw_part(event, number))
                self._reply.arguments(call, arguments)
            else:
                call.value, text = parsed
                self._reply.arguments(call, text)
            call.closed = True
        else:
            self._reply.arguments(call, "")
            self._open_call, self._assembly = call, Assembly()

    def _continue_call(self, part: CallPart, pieces: list[PartialArg], *, more: bool) -> None:
        self._assembly.add(pieces)
        if self._assembly.size > MAX_ARGUMENT_CHARS:
            self._reply.fail_too_long()
        elif not more and not any(piece.will_continue for piece in pieces):
            self._end_call(part)

    def _end_call(self, part: CallPart) -> None:
        self._open_call = None
        self._reply.arguments(part, self._assembly.text())
        part.closed = True

    def _raw_part(self, event: SSEvent, number: int) -> dict[str, object]:
        """The part as it came, for kinds that the typed reading does not name."""
        if self._raw_event is not event:
            self._raw_event, self._raw_parts = event, _raw_parts(event)
        return self._raw_parts[number] if number < len(self._raw_parts) else {}

    def _merge_usage(self) -> None:
        """Takes of each count the last valid one: a later event may leave some out."""
        usages, self._usages = self._usages, []
        for name in GoogleUsage.__struct_fields__:
            for usage in reversed(usages):
                number = count(getattr(usage, name))
                if number is not None:
                    self._counts[name] = number
                    break
        counts = self._counts
        prompt = counts.get("prompt_token_count")
        tools = counts.get("tool_use_prompt_token_count")
        thoughts = counts.get("thoughts_token_count")
        self._reply.count(
            {
                "input": None if prompt is None else added(prompt, tools),
                "output": added(counts.get("candidates_token_count"), thoughts),
                "reasoning": thoughts,
                "cache_read": counts.get("cached_content_token_count"),
                "total": counts.get("total_token_count"),
            }
        )


def _arguments_of(part: dict[str, object]) -> str:
    """The arguments of a call as JSON, where they are missing or no strict JSON."""
    call = objects_of([part.get("functionCall")])
    arguments = objects_of([call[0].get("args")] if call else None)
    return write_json(arguments[0] if arguments else {})


def _raw_parts(event: SSEvent) -> list[dict[str, object]]:
    """The parts as they came.

    What is no object was dropped by the typed reading too, so that the numbers agree.
    """
    message = read_object(event.data)
    response = objects_of([message.get("response")]) or [message]
    candidates = objects_of(response[0].get("candidates"))
    chosen = [candidate for candidate in candidates if not candidate.get("index")]
    content = objects_of([chosen[0].get("content")] if chosen else None)
    return objects_of(content[0].get("parts")) if content else []
