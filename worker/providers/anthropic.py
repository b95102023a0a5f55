"""Anthropic's messages stream.

Comes in: events of one stream, each with a name and the same `type` in its data. Goes out: calls of
a `Reply`. Built by `worker.providers.streams`. Field names: Anthropic's "Streaming messages" page;
its versioning policy says that new events, blocks and deltas will appear, so unknown ones are
counted or kept, never an error.
"""

import msgspec

from shared.turns import StopReason
from worker.normalize.blocks import CallPart, OpaquePart, Part, TextPart, ThinkingPart
from worker.normalize.counts import added, count
from worker.normalize.partial_json import parse_partial_json
from worker.normalize.payloads import Payload, read_object, word_of, write_json
from worker.normalize.reply import Reply
from worker.normalize.sse import SSEvent
from worker.normalize.storable import scrub

STOP_REASONS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_use": StopReason.TOOL_USE,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
    "refusal": StopReason.CONTENT_FILTER,
    "sensitive": StopReason.CONTENT_FILTER,  # seen live, not in the SDK (pi#978)
}
INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicDelta(msgspec.Struct, gc=False):
    """The delta of a block, or of the message (`stop_reason`)."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_details: object = None
    citation: object = None
    content: str | None = None
    encrypted_content: str | None = None


class AnthropicEvent(msgspec.Struct, gc=False):
    """One event. Blocks and messages stay dicts: they are rare, and unknown ones are kept whole."""

    type: str = ""
    index: int | None = None
    delta: AnthropicDelta | None = None
    content_block: dict[str, object] | None = None
    message: dict[str, object] | None = None
    usage: dict[str, object] | None = None
    error: object = None


class Anthropic:
    """Reads Anthropic events. Their `index` may have gaps, so it is a key and never a place."""

    payload = Payload(AnthropicEvent)
    ends_with_done = False

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._blocks: dict[int | None, Part] = {}
        self._inputs: dict[int, object] = {}
        """By block, input that came whole at its start: it counts unless deltas follow."""
        self._input_texts: dict[int, list[str]] = {}
        """By block, streamed input of server tools."""
        self._summaries: dict[int, list[str]] = {}
        """By block, streamed summaries of compactions."""
        self._kept: dict[int, dict[str, object]] = {}
        """By block, what is kept as it came, and may still be added to."""
        self._message_id: object = None
        self._tokens: dict[str, int | float] = {}

    def read(self, event: SSEvent, message: AnthropicEvent) -> None:
        """Reads one event. The type in the data wins over the event's name; proxies drop either."""
        kind = message.type or event.name
        if kind == "content_block_delta":
            if message.delta is not None:
                self._read_delta(message.index, message.delta)
        elif message.error or kind == "error":
            self._reply.fail_with(message.error or read_object(event.data))
        elif kind in _READERS:
            _READERS[kind](self, message)
        elif kind != "ping":
            self._reply.meta.unknown += 1

    def read_body(self, event: SSEvent, message: AnthropicEvent) -> None:
        """Reads a whole message: its blocks, as if each had been started with all it holds."""
        if message.type == "message":
            self._begin(read_object(event.data))
        else:
            self.read(event, message)

    def close(self) -> None:
        """Gives calls whose block was never stopped the input that they started with."""
        for key in self._blocks:
            self._close_block(key)

    def _read_delta(self, index: int | None, delta: AnthropicDelta) -> None:
        block = self._blocks.get(index)
        kind = delta.type
        if kind == "text_delta":
            if delta.text and (text := self._text_block(index, block)) is not None:
                self._reply.text(delta.text, text)
        elif kind == "thinking_delta":
            if delta.thinking and (thinking := self._thinking_block(index, block)) is not None:
                self._reply.think(delta.thinking, block=thinking)
        elif kind == "input_json_delta":
            if delta.partial_json:
                self._read_input(block, delta.partial_json)
        else:
            self._read_rare_delta(block, delta)

    def _read_rare_delta(self, block: Part | None, delta: AnthropicDelta) -> None:
        kind = delta.type
        if kind == "signature_delta" and isinstance(block, ThinkingPart):
            self._reply.think("", delta.signature, block)
        elif kind == "citations_delta" and isinstance(block, TextPart):
            block.citations.append(delta.citation)
        elif kind == "compaction_delta" and isinstance(block, OpaquePart):
            self._read_compaction(block, delta)
        else:
            self._reply.meta.unknown += 1

    def _read_compaction(self, block: OpaquePart, delta: AnthropicDelta) -> None:
        """Grows a summary of the history, which is for the next request and never visible text."""
        if delta.content is not None:
            self._summaries.setdefault(block.index, []).append(delta.content)
        if delta.encrypted_content is not None:
            self._kept[block.index]["encrypted_content"] = delta.encrypted_content

    def _text_block(self, index: int | None, block: Part | None) -> TextPart | None:
        """The block of a text delta, opened if its start was lost; None if it is another kind."""
        if block is None:
            block = self._blocks[index] = self._reply.open_text()
        return block if isinstance(block, TextPart) else None

    def _thinking_block(self, index: int | None, block: Part | None) -> ThinkingPart | None:
        if block is None:
            block = self._blocks[index] = self._reply.open_thinking()
        return block if isinstance(block, ThinkingPart) else None

    def _read_input(self, block: Part | None, text: str) -> None:
        if isinstance(block, CallPart):
            if self._inputs:
                self._inputs.pop(block.index, None)
            self._reply.arguments(block, text)
        elif isinstance(block, OpaquePart):
            self._input_texts.setdefault(block.index, []).append(text)

    def _read_start(self, event: AnthropicEvent) -> None:
        message = event.message
        if message is None:  # a metrics chunk of Bedrock
            return
        if self._message_id is not None:
            second = message.get("id") or ""
            if second != self._message_id:  # two generations spliced (vercel#18402)
                self._reply.fail("message_sequence", "second message_start in one stream")
            return
        self._begin(message)

    def _begin(self, message: dict[str, object]) -> None:
        reply = self._reply
        self._message_id = message.get("id") or ""
        reply.meta.response_id = word_of(message.get("id")) or None
        reply.start(word_of(message.get("model")))
        self._read_usage(message.get("usage"))
        self._stop(word_of(message.get("stop_reason")), message.get("stop_details"))
        content = message.get("content")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):  # whole blocks: deferred calls, or a body that is no stream
                self._open_block(-1 - number, block)
                self._close_block(-1 - number)

    def _read_block_start(self, event: AnthropicEvent) -> None:
        self._open_block(event.index, event.content_block or {})

    def _open_block(self, index: int | None, block: dict[str, object]) -> None:
        reply, kind = self._reply, block.get("type")
        if kind == "text":
            text = self._blocks[index] = reply.open_text()
            reply.text(word_of(block.get("text")), text)
            citations = block.get("citations")
            text.citations.extend(citations if isinstance(citations, list) else ())
        elif kind == "thinking":
            thinking = self._blocks[index] = reply.open_thinking()
            reply.think(word_of(block.get("thinking")), word_of(block.get("signature")), thinking)
        elif kind == "redacted_thinking":
            thinking = self._blocks[index] = reply.open_thinking(redacted=True)
            reply.think("", word_of(block.get("data")), thinking)
        elif kind == "tool_use":
            call = reply.open_call(word_of(block.get("id")), word_of(block.get("name")))
            self._blocks[index] = call
            if block.get("input"):
                self._inputs[call.index] = block["input"]
            reply.arguments(call, "")
        else:
            part = self._blocks[index] = reply.keep(block, provider="anthropic")
            self._kept[part.index] = block

    def _read_block_stop(self, event: AnthropicEvent) -> None:
        self._close_block(event.index)

    def _close_block(self, index: int | None) -> None:
        block = self._blocks.get(index)
        if isinstance(block, CallPart):
            whole = self._inputs.pop(block.index, None)
            if whole is not None:
                self._reply.arguments(block, write_json(whole))
            block.closed = True
        elif isinstance(block, OpaquePart):
            texts = self._input_texts.pop(block.index, None)
            if texts is not None:
                self._kept[block.index]["input"] = parse_partial_json("".join(texts))
            summary = self._summaries.pop(block.index, None)
            if summary is not None:
                self._kept[block.index]["content"] = "".join(summary)

    def _read_message_delta(self, event: AnthropicEvent) -> None:
        self._reply.start()
        if event.delta is not None:
            self._stop(event.delta.stop_reason, event.delta.stop_details)
        self._read_usage(event.usage)

    def _stop(self, word: str | None, details: object) -> None:
        if word:
            self._reply.stop = STOP_REASONS.get(word, StopReason.UNKNOWN)
            self._reply.meta.raw_stop_reason = word
        if details is not None:
            self._reply.meta.stop_details = scrub(details)

    def _read_message_stop(self, _: AnthropicEvent) -> None:
        if self._reply.stop is None:
            self._reply.fail("stream_truncated", "message_stop without stop_reason")
            return
        self.close()
        self._reply.done(self._reply.stop)

    def _read_usage(self, usage: object) -> None:
        """Counts are cumulative; proxies send null or leave some out (pi#1045)."""
        if not isinstance(usage, dict):
            return
        tokens = self._tokens
        for name in (*INPUT_COUNTS, "output_tokens"):
            number = count(usage.get(name))
            if number is not None:
                tokens[name] = number
        details = usage.get("output_tokens_details")
        thinking = count(details.get("thinking_tokens")) if isinstance(details, dict) else None
        has_input = "input_tokens" in tokens
        self._reply.count(
            {
                "input": added(*map(tokens.get, INPUT_COUNTS)) if has_input else None,
                "output": tokens.get("output_tokens"),
                "reasoning": thinking,
                "cache_read": tokens.get("cache_read_input_tokens"),
                "cache_write": tokens.get("cache_creation_input_tokens"),
            }
        )


_READERS = {
    "message_start": Anthropic._read_start,
    "content_block_start": Anthropic._read_block_start,
    "content_block_stop": Anthropic._read_block_stop,
    "message_delta": Anthropic._read_message_delta,
    "message_stop": Anthropic._read_message_stop,
}
"""What each event means; deltas of blocks, nine events of ten, are looked at before."""
