"""Answers as OpenAI's Responses API streams them.

Comes in: deltas. Goes out: frames with an `event:` line and a sequence number, from
`response.created` to `response.completed`, `.incomplete` or `.failed`. Fields are those of recorded
streams of 2026.
"""

from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Count, Fault, Frame
from ops.rehearsal.voices.frames import fragments, sse, vendor_id

Json = dict[str, object]


class ResponsesVoice:
    """One answer.

    Args:
        model: repeated in the response object.
        number: of the request; ids are derived from it.
        created_s: seconds since the epoch.
    """

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, model: str, number: int, created_s: int) -> None:
        self._model = model
        self._created_s = created_s
        self._id = vendor_id("resp_", number, length=48)
        self._sequence = 0
        self._output: list[Json] = []
        self._kind: str | None = None
        self._item: Json = {}
        self._text: list[str] = []

    def start(self, count: Count) -> list[Frame]:
        """Opens with the response object, twice, as OpenAI does."""
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.in_progress", response=self._response("in_progress")),
        ]

    def heartbeat(self) -> list[Frame]:
        """A comment, as proxies write it."""
        return [Frame(b": PROCESSING\n\n")]

    def think(self, delta: str) -> list[Frame]:
        """Adds to the summary of the reasoning."""
        frames: list[Frame] = []
        if self._kind != "reasoning":
            item: Json = {"id": self._new_id("rs_"), "summary": []}
            frames = self._enter("reasoning", item)
            part = {"type": "summary_text", "text": ""}
            name = "response.reasoning_summary_part.added"
            frames.append(self._located(name, summary_index=0, part=part))
        self._text.append(delta)
        name = "response.reasoning_summary_text.delta"
        return [*frames, self._located(name, summary_index=0, delta=delta)]

    def say(self, delta: str) -> list[Frame]:
        """Adds visible text."""
        part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        return self._speak("message", part, "response.output_text.delta", delta)

    def refuse(self, delta: str) -> list[Frame]:
        """Adds to the refusal, a part of its own here."""
        part: Json = {"type": "refusal", "refusal": ""}
        return self._speak("refusal", part, "response.refusal.delta", delta)

    def draw(self, data: str) -> list[Frame]:
        """An item of its own."""
        item: Json = {"id": self._new_id("ig_"), "result": None}
        frames = self._enter("image_generation_call", item)
        self._item["result"] = data
        return frames + self._leave()

    def call(self, name: str, arguments: str) -> list[Frame]:
        """An item of its own, its arguments in fragments and once more whole."""
        call_id = self._new_id("call_")
        item: Json = {"id": self._new_id("fc_"), "call_id": call_id, "name": name, "arguments": ""}
        frames = self._enter("function_call", item)
        delta = "response.function_call_arguments.delta"
        frames.extend(self._located(delta, delta=part) for part in fragments(arguments))
        done = "response.function_call_arguments.done"
        frames.append(self._located(done, arguments=arguments))
        self._item["arguments"] = arguments
        return frames + self._leave()

    def fail(self, fault: Fault) -> list[Frame]:
        """The nested error that is seen live, then `response.failed`."""
        error: Json = {
            "type": fault.type,
            "code": fault.code or fault.type,
            "message": fault.message,
            "param": fault.param,
        }
        response = self._response("failed")
        response["error"] = {"code": fault.code or fault.type, "message": fault.message}
        return [
            self._event("error", error=error),
            self._event("response.failed", response=response),
        ]

    def finish(self, reason: str, count: Count) -> list[Frame]:
        """Closes the open item, then the response with its counts."""
        frames = self._leave(is_whole=reason != "length")
        if reason == "length":
            response = self._response("incomplete", count)
            response["incomplete_details"] = {"reason": "max_output_tokens"}
            return [*frames, self._event("response.incomplete", response=response)]
        response = self._response("completed", count)
        return [*frames, self._event("response.completed", response=response)]

    def _speak(self, kind: str, part: Json, name: str, delta: str) -> list[Frame]:
        frames: list[Frame] = []
        if self._kind != kind:
            item: Json = {"id": self._new_id("msg_"), "role": "assistant", "content": []}
            frames = self._enter(kind, item)
            added = "response.content_part.added"
            frames.append(self._located(added, content_index=0, part=part))
        self._text.append(delta)
        event = self._located(name, visible_chars=len(delta), content_index=0, delta=delta)
        return [*frames, event]

    def _enter(self, kind: str, item: Json) -> list[Frame]:
        frames = self._leave()
        self._kind = kind
        wire_kind = "message" if kind == "refusal" else kind
        self._item = {"type": wire_kind, "status": "in_progress", **item}
        index = len(self._output)
        added = self._event("response.output_item.added", output_index=index, item=self._item)
        return [*frames, added]

    def _leave(self, *, is_whole: bool = True) -> list[Frame]:
        if self._kind is None:
            return []
        text = "".join(self._text)
        frames = self._closing(text)
        self._item["status"] = "completed" if is_whole else "incomplete"
        done = self._event(
            "response.output_item.done", output_index=len(self._output), item=self._item
        )
        self._output.append(self._item)
        self._kind = None
        self._text.clear()
        return [*frames, done]

    def _closing(self, text: str) -> list[Frame]:
        """The events that repeat a part whole, before its item is done."""
        if self._kind == "message":
            part: Json = {"type": "output_text", "annotations": [], "text": text}
            self._item["content"] = [part]
            return [
                self._located("response.output_text.done", content_index=0, text=text),
                self._located("response.content_part.done", content_index=0, part=part),
            ]
        if self._kind == "refusal":
            part = {"type": "refusal", "refusal": text}
            self._item["content"] = [part]
            name = "response.refusal.done"
            return [self._located(name, content_index=0, refusal=text)]
        if self._kind == "reasoning":
            part = {"type": "summary_text", "text": text}
            self._item["summary"] = [part]
            self._item["encrypted_content"] = sign("openai", self._model, text)
            name = "response.reasoning_summary_text.done"
            return [self._located(name, summary_index=0, text=text)]
        return []

    def _new_id(self, prefix: str) -> str:
        return vendor_id(prefix, self._id, len(self._output), length=40)

    def _event(self, kind: str, **fields: object) -> Frame:
        return self._framed(kind, fields)

    def _located(self, kind: str, *, visible_chars: int = 0, **fields: object) -> Frame:
        """An event that belongs to the open item."""
        at: Json = {"item_id": self._item["id"], "output_index": len(self._output)}
        return self._framed(kind, {**at, **fields}, visible_chars)

    def _framed(self, kind: str, fields: Json, visible_chars: int = 0) -> Frame:
        value: Json = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse(value, event=kind, visible_chars=visible_chars)

    def _response(self, status: str, count: Count | None = None) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created_s,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": list(self._output) if count is not None else [],
            "store": False,
            "usage": None if count is None else _usage(count),
        }


def _usage(count: Count) -> Json:
    return {
        "input_tokens": count.prompt,
        "input_tokens_details": {"cached_tokens": count.cached},
        "output_tokens": count.output,
        "output_tokens_details": {"reasoning_tokens": count.reasoning},
        "total_tokens": count.prompt + count.output,
    }
