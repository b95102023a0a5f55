"""Answers as OpenAI's chat completions stream them.

Comes in: deltas. Goes out: frames of `data:` lines that end with `[DONE]`. The fields are those of
recorded streams of 2026 (`service_tier`, `obfuscation`, `usage: null` before the last chunk);
reasoning goes in `reasoning_content`, as DeepSeek and most compatible servers send it.
"""

from ops.rehearsal.values import Count, Fault, Frame
from ops.rehearsal.voices.frames import encode, fragments, sse, vendor_id

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
}
DONE = Frame(b"data: [DONE]\n\n")


class ChatVoice:
    """One answer.

    Args:
        model: repeated in every chunk.
        number: of the request; ids are derived from it.
        created_s: seconds since the epoch.
        wants_usage: `stream_options.include_usage` of the request.
    """

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, model: str, number: int, created_s: int, *, wants_usage: bool) -> None:
        self._model = model
        self._created_s = created_s
        self._wants_usage = wants_usage
        self._id = vendor_id("chatcmpl-", number)
        self._chunks = 0
        self._calls = 0
        self._refused = False

    def start(self, count: Count) -> list[Frame]:
        """Opens with the role."""
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def heartbeat(self) -> list[Frame]:
        """A comment, as OpenRouter writes it."""
        return [Frame(b": PROCESSING\n\n")]

    def think(self, delta: str) -> list[Frame]:
        """Adds reasoning."""
        return [self._chunk({"reasoning_content": delta})]

    def say(self, delta: str) -> list[Frame]:
        """Adds visible text."""
        return [self._chunk({"content": delta}, visible_chars=len(delta))]

    def refuse(self, delta: str) -> list[Frame]:
        """Adds to the refusal, a field of its own here."""
        self._refused = True
        return [self._chunk({"refusal": delta}, visible_chars=len(delta))]

    def draw(self, data: str) -> list[Frame]:
        """A data address in a field of its own, as OpenRouter sends pictures."""
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return [self._chunk({"content": "", "images": [{**image, "index": 0}]})]

    def call(self, name: str, arguments: str) -> list[Frame]:
        """Announces the call, then sends its arguments in fragments."""
        index = self._calls
        self._calls += 1
        head = {
            "index": index,
            "id": vendor_id("call_", self._id, index),
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        return [
            self._chunk({"tool_calls": [head]}),
            *(
                self._chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                for part in fragments(arguments)
            ),
        ]

    def fail(self, fault: Fault) -> list[Frame]:
        """An error object where a chunk is expected; nothing follows, not even `[DONE]`."""
        return [Frame(b"data: " + error_body(fault) + b"\n\n")]

    def finish(self, reason: str, count: Count) -> list[Frame]:
        """Finish reason, usage in a chunk without choices, `[DONE]`."""
        word = FINISH[reason]
        if self._refused and reason == "content_filter":
            word = "stop"  # OpenAI ends a refusal with stop; the refusal field says the rest
        frames = [self._chunk({}, finish_reason=word)]
        if self._wants_usage:
            frames.append(sse({**self._head(), "choices": [], "usage": _usage(count)}))
        return [*frames, DONE]

    def _chunk(
        self,
        delta: dict[str, object],
        *,
        finish_reason: str | None = None,
        visible_chars: int = 0,
    ) -> Frame:
        self._chunks += 1
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head(), "choices": [choice]}
        if self._wants_usage:
            chunk["usage"] = None
        # OpenAI pads chunks so that their length does not tell the token.
        padding = vendor_id("", self._id, self._chunks, length=4 + self._chunks % 8)
        return sse({**chunk, "obfuscation": padding}, visible_chars=visible_chars)

    def _head(self) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created_s,
            "model": self._model,
            "service_tier": "default",
            "system_fingerprint": "fp_rehearsal",
        }


def error_body(fault: Fault) -> bytes:
    """An error as OpenAI's two APIs word it."""
    return encode(
        {
            "error": {
                "message": fault.message,
                "type": fault.type,
                "param": fault.param,
                "code": fault.code,
            }
        }
    )


def _usage(count: Count) -> dict[str, object]:
    return {
        "prompt_tokens": count.prompt,
        "completion_tokens": count.output,
        "total_tokens": count.prompt + count.output,
        "prompt_tokens_details": {"cached_tokens": count.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": count.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
