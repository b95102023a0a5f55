"""OpenAI's responses stream.

Comes in: events of one stream, each with its `type` in the data. Goes out: calls of a `Reply`.
Built by `worker.providers.streams`. Field names: OpenAI's API reference, responses streaming. State
is kept by `output_index`: GitHub Copilot gives every event another `item_id` (vercel#18548).
"""

import msgspec

from shared.turns import StopReason
from worker.normalize.blocks import CallPart, OpaquePart, Part, TextPart, ThinkingPart
from worker.normalize.counts import count
from worker.normalize.payloads import Payload, objects_of, read_object, word_of, write_json
from worker.normalize.reply import Reply
from worker.normalize.sse import SSEvent

INCOMPLETE = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
    "": StopReason.LENGTH,
}
"""Stop reasons of `response.incomplete` by its reason; others are unknown."""

QUIET = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.reasoning_text.done",
    }
)
"""Events that only repeat what deltas and items say."""


class ResponsesEvent(msgspec.Struct, gc=False):
    """One event. Items and responses stay dicts: they are rare, and unknown ones are kept whole."""

    type: str = ""
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    part: dict[str, object] | None = None
    item: dict[str, object] | None = None
    response: dict[str, object] | None = None
    annotation: object = None
    error: object = None


class OpenAIResponses:
    """Reads responses events. What `.done` events and the final response repeat is reconciled."""

    payload = Payload(ResponsesEvent)
    ends_with_done = True

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._items: dict[int | None, Part] = {}
        """By output index; messages are in `_texts`."""
        self._texts: dict[tuple[int | None, int], TextPart] = {}
        """By output index and content index."""
        self._custom_inputs: dict[int, list[str]] = {}
        """By block, the streamed input of calls of custom tools, which is no JSON."""

    def read(self, event: SSEvent, message: ResponsesEvent) -> None:
        """Reads one event; the type in the data wins over the event's name."""
        kind = message.type or event.name
        if kind == "response.output_text.delta":
            if message.delta:
                self._reply.text(message.delta, self._text(message))
        elif kind in _READERS:
            _READERS[kind](self, message)
        elif kind == "error" or message.error:
            error = message.error
            self._reply.fail_with(error if isinstance(error, dict) else read_object(event.data))
        elif kind not in QUIET:
            self._reply.meta.unknown += 1

    def read_body(self, event: SSEvent, message: ResponsesEvent) -> None:
        """Reads a whole response, as if it were the last event's."""
        response = read_object(event.data)
        if response.get("object") == "response" and not response.get("error"):
            self._end(response)
        else:
            self.read(event, message)

    def close(self) -> None:
        """Gives calls of custom tools that were never finished the input they have.

        It is no JSON, so that nothing in it would tell that it was cut: such a call does not run.
        """
        for call in self._reply.calls:
            call.tainted = call.tainted or call.index in self._custom_inputs
            self._close_custom(call, "")

    # What is opened

    def _read_begin(self, event: ResponsesEvent) -> None:
        self._begin(event.response or {})

    def _begin(self, response: dict[str, object]) -> None:
        meta = self._reply.meta
        meta.response_id = meta.response_id or word_of(response.get("id")) or None
        self._reply.start(word_of(response.get("model")))

    def _read_added(self, event: ResponsesEvent) -> None:
        self._reply.start()
        item = event.item or {}
        kind = item.get("type")
        if kind == "function_call" or self._is_custom_call(item):
            call = self._open_call(event.output_index, item)
            self._reply.arguments(call, word_of(item.get("arguments")))
        elif kind == "reasoning":
            self._items[event.output_index] = self._reply.open_thinking()
        elif kind != "message":
            self._items[event.output_index] = self._reply.keep(item, provider="openai")

    def _is_custom_call(self, item: dict[str, object]) -> bool:
        """A call of a custom tool is the client's only if the client has such a tool."""
        return item.get("type") == "custom_tool_call" and item.get("name") in self._reply.tools

    def _open_call(self, index: int | None, item: dict[str, object]) -> CallPart:
        call = self._reply.open_call(word_of(item.get("call_id")), word_of(item.get("name")))
        call.item_id = word_of(item.get("id")) or None
        self._items[index] = call
        if item.get("type") == "custom_tool_call":
            self._custom_inputs[call.index] = []
        return call

    def _text(self, event: ResponsesEvent) -> TextPart:
        return self._text_at(event.output_index, event.content_index or 0)

    def _text_at(self, index: int | None, content_index: int) -> TextPart:
        block = self._texts.get((index, content_index))
        if block is None:
            if self._texts and not content_index:
                self._reply.meta.message_starts.append(len(self._reply.blocks))
            block = self._texts[index, content_index] = self._reply.open_text()
        return block

    def _thinking_at(self, index: int | None) -> ThinkingPart:
        block = self._items.get(index)
        if not isinstance(block, ThinkingPart):
            block = self._items[index] = self._reply.open_thinking()
        return block

    # Deltas, and the events that repeat them

    def _read_text_done(self, event: ResponsesEvent) -> None:
        self._complete_text(self._text(event), event.text)

    def _read_refusal(self, event: ResponsesEvent) -> None:
        if event.delta:
            self._reply.refused = True
            self._reply.text(event.delta, self._text(event))

    def _read_refusal_done(self, event: ResponsesEvent) -> None:
        self._reply.refused = True
        self._complete_text(self._text(event), event.refusal)

    def _complete_text(self, block: TextPart, whole: object) -> None:
        """Adds what a whole text has beyond its deltas; one that contradicts them is ignored."""
        if isinstance(whole, str) and len(whole) > block.length:
            streamed = block.joined()
            if whole.startswith(streamed):
                self._reply.text(whole[len(streamed) :], block)

    def _read_annotation(self, event: ResponsesEvent) -> None:
        self._text(event).citations.append(event.annotation)

    def _read_summary_part(self, event: ResponsesEvent) -> None:
        block = self._thinking_at(event.output_index)
        if event.summary_index and any(block.parts):
            self._reply.think("\n\n", block=block)
        self._reply.think(word_of((event.part or {}).get("text")), block=block)

    def _read_thinking(self, event: ResponsesEvent) -> None:
        if event.delta:
            self._reply.think(event.delta, block=self._thinking_at(event.output_index))

    def _read_arguments(self, event: ResponsesEvent) -> None:
        call = self._items.get(event.output_index)
        if isinstance(call, CallPart) and event.delta:
            custom = self._custom_inputs.get(call.index)
            if custom is None:
                self._reply.arguments(call, event.delta)
            else:
                custom.append(event.delta)

    def _read_arguments_done(self, event: ResponsesEvent) -> None:
        call = self._items.get(event.output_index)
        if isinstance(call, CallPart):
            self._complete_arguments(call, event.arguments)

    def _complete_arguments(self, call: CallPart, whole: object) -> None:
        """Adds what the whole arguments have beyond the deltas; where they contradict, they win."""
        if not isinstance(whole, str) or not whole:
            return
        streamed = call.arguments()
        if whole.startswith(streamed):
            self._reply.arguments(call, whole[len(streamed) :])
        else:
            self._reply.replace_arguments(call, whole)

    # Items and the end

    def _read_item_done(self, event: ResponsesEvent) -> None:
        self._finish_item(event.output_index, event.item or {})

    def _finish_item(self, index: int | None, item: dict[str, object]) -> None:
        kind = item.get("type")
        if kind == "function_call" or self._is_custom_call(item):
            call = self._items.get(index)
            if not isinstance(call, CallPart):
                call = self._call_of(item) or self._open_call(index, item)
                self._reply.arguments(call, "")
            self._finish_call(call, item)
        elif kind == "reasoning":
            self._finish_thinking(self._thinking_at(index), item)
        elif kind == "message":
            for number, part in enumerate(objects_of(item.get("content"))):
                self._finish_text(self._text_at(index, number), part, item)
        elif kind:
            kept = self._items.get(index)
            if isinstance(kept, OpaquePart):
                kept.raw = item
            elif kept is None:
                self._items[index] = self._reply.keep(item, provider="openai")

    def _call_of(self, item: dict[str, object]) -> CallPart | None:
        call_id = item.get("call_id")
        return next((call for call in self._reply.calls if call.id == call_id), None)

    def _finish_call(self, call: CallPart, item: dict[str, object]) -> None:
        if call.index in self._custom_inputs:
            call.tainted = call.tainted or item.get("status") == "incomplete"
            self._close_custom(call, word_of(item.get("input")))
        else:
            self._complete_arguments(call, item.get("arguments"))
        call.closed = True

    def _close_custom(self, call: CallPart, whole: str) -> None:
        streamed = self._custom_inputs.pop(call.index, None)
        if streamed is not None:
            self._reply.arguments(call, write_json({"__input__": whole or "".join(streamed)}))

    def _finish_thinking(self, block: ThinkingPart, item: dict[str, object]) -> None:
        parts = objects_of(item.get("summary")) or objects_of(item.get("content"))
        if not any(block.parts):
            self._reply.think("\n\n".join(word_of(part.get("text")) for part in parts), block=block)
        encrypted = item.get("encrypted_content")
        if encrypted and not block.signature:
            signature = {"id": item.get("id"), "encrypted_content": encrypted}
            self._reply.think("", write_json(signature), block)

    def _finish_text(
        self, block: TextPart, part: dict[str, object], item: dict[str, object]
    ) -> None:
        if part.get("type") == "refusal":
            self._reply.refused = True
            self._complete_text(block, part.get("refusal"))
        elif part.get("type") == "output_text":
            self._complete_text(block, part.get("text"))
        block.item_id = word_of(item.get("id")) or block.item_id
        block.phase = word_of(item.get("phase")) or block.phase

    def _read_end(self, event: ResponsesEvent) -> None:
        self._end(event.response or {}, incomplete=event.type == "response.incomplete")

    def _end(self, response: dict[str, object], *, incomplete: bool = False) -> None:
        self._begin(response)
        for index, item in enumerate(objects_of(response.get("output"))):
            self._supply(index, item)
        self._read_usage(response.get("usage"))
        status = word_of(response.get("status"))
        is_cut = incomplete or status == "incomplete"
        if not is_cut:
            for call in self._reply.calls:
                self._close_custom(call, "")
        self.close()
        if is_cut:
            reason = _reason(response)
            self._reply.meta.raw_stop_reason = reason or "incomplete"
            self._reply.done(INCOMPLETE.get(reason, StopReason.UNKNOWN))
        elif status in ("failed", "cancelled"):
            self._reply.fail(status, f"response {status}", body=response)
        else:
            self._reply.meta.raw_stop_reason = status or "completed"
            self._reply.done(StopReason.STOP)

    def _supply(self, index: int, item: dict[str, object]) -> None:
        """Takes from the final response what was never streamed, and nothing twice."""
        kind, reply = item.get("type"), self._reply
        if kind == "function_call" or self._is_custom_call(item):
            at_index = self._items.get(index)
            call = at_index if isinstance(at_index, CallPart) else self._call_of(item)
            if call is None:
                self._finish_item(index, item)
            elif not call.text.length or call.id == item.get("call_id"):
                self._finish_call(call, item)
        elif kind == "message":
            for number, part in enumerate(objects_of(item.get("content"))):
                if (index, number) in self._texts or not reply.has_text:
                    self._finish_text(self._text_at(index, number), part, item)
        elif index not in self._items:
            was_streamed = any(isinstance(part, ThinkingPart) for part in reply.blocks)
            if kind != "reasoning" or not was_streamed:
                self._finish_item(index, item)

    def _read_failed(self, event: ResponsesEvent) -> None:
        response = event.response or {}
        self._read_usage(response.get("usage"))
        if response.get("error"):
            self._reply.fail_with(response["error"])
        else:
            self._reply.fail(_reason(response) or "failed", "response failed", body=response)

    def _read_cancelled(self, _: ResponsesEvent) -> None:
        self._reply.fail("cancelled", "response cancelled")

    def _read_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        prompt = usage.get("input_tokens_details")
        output = usage.get("output_tokens_details")
        prompt = prompt if isinstance(prompt, dict) else {}
        output = output if isinstance(output, dict) else {}
        self._reply.count(
            {
                "input": count(usage.get("input_tokens")),
                "output": count(usage.get("output_tokens")),
                "reasoning": count(output.get("reasoning_tokens")),
                "cache_read": count(prompt.get("cached_tokens")),
                "cache_write": count(prompt.get("cache_write_tokens")),
                "total": count(usage.get("total_tokens")),
                "cost": count(usage.get("cost")),
            }
        )


_READERS = {
    "response.created": OpenAIResponses._read_begin,
    "response.queued": OpenAIResponses._read_begin,
    "response.in_progress": OpenAIResponses._read_begin,
    "response.output_item.added": OpenAIResponses._read_added,
    "response.output_text.done": OpenAIResponses._read_text_done,
    "response.output_text.annotation.added": OpenAIResponses._read_annotation,
    "response.refusal.delta": OpenAIResponses._read_refusal,
    "response.refusal.done": OpenAIResponses._read_refusal_done,
    "response.reasoning_summary_part.added": OpenAIResponses._read_summary_part,
    "response.reasoning_summary_text.delta": OpenAIResponses._read_thinking,
    "response.reasoning_text.delta": OpenAIResponses._read_thinking,
    "response.function_call_arguments.delta": OpenAIResponses._read_arguments,
    "response.function_call_arguments.done": OpenAIResponses._read_arguments_done,
    "response.custom_tool_call_input.delta": OpenAIResponses._read_arguments,
    "response.output_item.done": OpenAIResponses._read_item_done,
    "response.completed": OpenAIResponses._read_end,
    "response.done": OpenAIResponses._read_end,  # Codex
    "response.incomplete": OpenAIResponses._read_end,
    "response.failed": OpenAIResponses._read_failed,
    "response.cancelled": OpenAIResponses._read_cancelled,
}
"""What each event means; text deltas, most of a stream, are looked at before."""


def _reason(response: dict[str, object]) -> str:
    details = response.get("incomplete_details")
    return word_of(details.get("reason")) if isinstance(details, dict) else ""
