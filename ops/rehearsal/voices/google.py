"""Answers as Google's streamGenerateContent gives them.

Comes in: deltas. Goes out: whole response objects, as `data:` lines with CR LF, or, without
`alt=sse`, as the elements of one JSON array. There is no end marker; the body ends.
"""

import msgspec

from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Count, Fault, Frame
from ops.rehearsal.voices.frames import encode, vendor_id

FINISH = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_use": "STOP",
    "content_filter": "SAFETY",
}
Json = dict[str, object]


class GoogleVoice:
    """One answer.

    Args:
        model: told as the version.
        number: of the request; ids are derived from it.
        is_sse: whether `alt=sse` was asked for.
    """

    def __init__(self, model: str, number: int, *, is_sse: bool) -> None:
        self._model = model
        self._id = vendor_id("", number)
        self._is_sse = is_sse
        self._objects = 0
        self._calls = 0
        self._count = Count(prompt=0, cached=0, cache_written=0, output=0, reasoning=0)
        kind = "text/event-stream" if is_sse else "application/json; charset=UTF-8"
        self.media_type = kind

    def start(self, count: Count) -> list[Frame]:
        """Nothing is written before the first content."""
        self._count = count
        return []

    def heartbeat(self) -> list[Frame]:
        """A comment, or white space between the elements of the array."""
        return [Frame(b": PROCESSING\r\n\r\n")] if self._is_sse else [Frame(b" ")]

    def think(self, delta: str) -> list[Frame]:
        """Adds to the summary of the thoughts."""
        return [self._candidate([{"text": delta, "thought": True}])]

    def say(self, delta: str) -> list[Frame]:
        """Adds visible text."""
        return [self._candidate([{"text": delta}], visible_chars=len(delta))]

    def refuse(self, delta: str) -> list[Frame]:
        """Adds text; the finish reason tells that it is a refusal."""
        return self.say(delta)

    def draw(self, data: str) -> list[Frame]:
        """A part of inline data."""
        return [self._candidate([{"inlineData": {"mimeType": "image/png", "data": data}}])]

    def call(self, name: str, arguments: str) -> list[Frame]:
        """A whole call in one part; only the first of an answer is signed."""
        try:
            given = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return []  # Google never sends cut arguments: the call is missing altogether
        call_id = vendor_id("", self._id, self._calls, length=8)
        part: Json = {"functionCall": {"name": name, "args": given, "id": call_id}}
        if self._calls == 0:
            part["thoughtSignature"] = sign("google", self._model, name)
        self._calls += 1
        return [self._candidate([part])]

    def fail(self, fault: Fault) -> list[Frame]:
        """An error object in place of a response; the body ends behind it."""
        return [self._frame(error_body(fault)), *self._closing()]

    def finish(self, reason: str, count: Count) -> list[Frame]:
        """The finish reason, with the last counts."""
        self._count = count
        return [self._candidate([{"text": ""}], finish=FINISH[reason]), *self._closing()]

    def _candidate(
        self, parts: list[Json], *, finish: str | None = None, visible_chars: int = 0
    ) -> Frame:
        candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        value = {
            "candidates": [candidate],
            "usageMetadata": _usage(self._count),
            "modelVersion": self._model,
            "responseId": self._id,
        }
        return self._frame(encode(value), visible_chars)

    def _frame(self, payload: bytes, visible_chars: int = 0) -> Frame:
        self._objects += 1
        if self._is_sse:
            return Frame(b"data: " + payload + b"\r\n\r\n", visible_chars)
        return Frame((b"[" if self._objects == 1 else b",\r\n") + payload, visible_chars)

    def _closing(self) -> list[Frame]:
        return [] if self._is_sse else [Frame(b"\n]\n")]


def error_body(fault: Fault) -> bytes:
    """An error as Google words it; the status word is the fault's type."""
    error: Json = {"code": fault.status, "message": fault.message, "status": fault.type}
    if fault.details:
        error["details"] = fault.details
    return encode({"error": error})


def _usage(count: Count) -> Json:
    usage: Json = {
        "promptTokenCount": count.prompt,
        "candidatesTokenCount": count.output - count.reasoning,
        "totalTokenCount": count.prompt + count.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count.prompt}],
    }
    if count.reasoning:
        usage["thoughtsTokenCount"] = count.reasoning
    if count.cached:
        usage["cachedContentTokenCount"] = count.cached
    return usage
