"""Answers as Anthropic's Messages API streams them.

Comes in: deltas. Goes out: frames with an `event:` line, from `message_start` to `message_stop`.
Fields are those of recorded streams of 2026.
"""

from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Count, Fault, Frame
from ops.rehearsal.voices.frames import encode, fragments, sse, vendor_id

FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "content_filter": "refusal",
}


class AnthropicVoice:
    """One answer. `number` is the request's; ids are derived from it."""

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, model: str, number: int) -> None:
        self._model = model
        self._id = vendor_id("msg_01", number, length=22)
        self._open: str | None = None
        self._index = -1
        self._thought: list[str] = []

    def start(self, count: Count) -> list[Frame]:
        """Opens with the empty message and the counts of the prompt."""
        message: dict[str, object] = {
            "model": self._model,
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_prompt_usage(count), "output_tokens": 1, "service_tier": "standard"},
        }
        return [_event("message_start", message=message), _event("ping")]

    def heartbeat(self) -> list[Frame]:
        """A `ping` event."""
        return [_event("ping")]

    def think(self, delta: str) -> list[Frame]:
        """Adds reasoning."""
        frames = self._enter("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        self._thought.append(delta)
        return [*frames, self._delta({"type": "thinking_delta", "thinking": delta})]

    def say(self, delta: str) -> list[Frame]:
        """Adds visible text."""
        frames = self._enter("text", {"type": "text", "text": ""})
        return [*frames, self._delta({"type": "text_delta", "text": delta}, len(delta))]

    def refuse(self, delta: str) -> list[Frame]:
        """Adds text: a refusal is an answer here, and a stop reason."""
        return self.say(delta)

    def draw(self, data: str) -> list[Frame]:
        """Nothing: these models make no pictures."""
        del data
        return []

    def call(self, name: str, arguments: str) -> list[Frame]:
        """A block of its own: announced with empty input, then fragments of JSON."""
        frames = self._leave()
        call_id = vendor_id("toolu_01", self._id, self._index, length=22)
        block: dict[str, object] = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        frames += self._enter("tool_use", block)
        frames.extend(
            self._delta({"type": "input_json_delta", "partial_json": part})
            for part in ["", *fragments(arguments)]
        )
        return frames + self._leave()

    def fail(self, fault: Fault) -> list[Frame]:
        """An `error` event; nothing follows."""
        return [Frame(b"event: error\ndata: " + error_body(fault) + b"\n\n")]

    def finish(self, reason: str, count: Count) -> list[Frame]:
        """Stop reason and counts, then the end."""
        usage = {**_prompt_usage(count), "output_tokens": count.output}
        if count.reasoning:
            usage["output_tokens_details"] = {"thinking_tokens": count.reasoning}
        delta = {"stop_reason": FINISH[reason], "stop_sequence": None}
        return [
            *self._leave(),
            _event("message_delta", delta=delta, usage=usage),
            _event("message_stop"),
        ]

    def _enter(self, kind: str, block: dict[str, object]) -> list[Frame]:
        if self._open == kind:
            return []
        frames = self._leave()
        self._open = kind
        self._index += 1
        return [*frames, _event("content_block_start", index=self._index, content_block=block)]

    def _leave(self) -> list[Frame]:
        if self._open is None:
            return []
        frames: list[Frame] = []
        if self._open == "thinking":
            signature = sign("anthropic", self._model, "".join(self._thought))
            self._thought.clear()
            frames.append(self._delta({"type": "signature_delta", "signature": signature}))
        self._open = None
        return [*frames, _event("content_block_stop", index=self._index)]

    def _delta(self, delta: dict[str, object], visible_chars: int = 0) -> Frame:
        value = {"type": "content_block_delta", "index": self._index, "delta": delta}
        return sse(value, event="content_block_delta", visible_chars=visible_chars)


def error_body(fault: Fault) -> bytes:
    """An error as Anthropic words it, in answers and in streams."""
    error = {"type": fault.type, "message": fault.message}
    return encode({"type": "error", "error": error, "request_id": "req_rehearsal"})


def _event(kind: str, **fields: object) -> Frame:
    return sse({"type": kind, **fields}, event=kind)


def _prompt_usage(count: Count) -> dict[str, object]:
    return {
        "input_tokens": count.prompt - count.cached - count.cache_written,
        "cache_creation_input_tokens": count.cache_written,
        "cache_read_input_tokens": count.cached,
    }
