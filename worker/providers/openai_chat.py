"""OpenAI chat completions, and every server that imitates them.

Comes in: events of one stream (`data:` only, ended by `[DONE]`). Goes out: calls of a `Reply`.
Built by `worker.providers.normalizer_for`. Field names: OpenAI's API reference, chat streaming;
additions of OpenRouter, DeepSeek, Mistral, Groq, vLLM stand where they are read.
"""

import msgspec

from shared.turns import StopReason
from worker.normalize.blocks import ThinkingPart
from worker.normalize.counts import added, count
from worker.normalize.payloads import Payload, read_object, word_of, write_json
from worker.normalize.reply import Reply
from worker.normalize.sse import SSEvent
from worker.normalize.storable import scrub
from worker.normalize.tool_calls import CallTracker

STOP_REASONS = {
    "stop": StopReason.STOP,
    "end": StopReason.STOP,  # Ollama, LM Studio (pi#2142)
    "eos": StopReason.STOP,
    "eos_token": StopReason.STOP,
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "complete": StopReason.STOP,  # Cohere (API reference, chat v2), as `tool_call`
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "max_output_tokens": StopReason.LENGTH,  # the Responses API's word, handed on
    "model_length": StopReason.LENGTH,  # Mistral
    "model_context_window_exceeded": StopReason.LENGTH,  # z.ai
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "tool_call": StopReason.TOOL_USE,
    "function_calls": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "refusal": StopReason.CONTENT_FILTER,
    "content_filtered": StopReason.CONTENT_FILTER,  # Bedrock (Converse, stopReason), as the next
    "guardrail_intervened": StopReason.CONTENT_FILTER,
    "sensitive": StopReason.CONTENT_FILTER,  # z.ai
}
FAILURES = {
    "error": "provider reported finish_reason error",
    "network_error": "provider reported finish_reason network_error",
    "insufficient_system_resource": "provider resources exhausted",  # DeepSeek
}
LEGACY_INDEX = -1
"""The index of the one call of `function_call`; no server counts down."""


class _Base(msgspec.Struct, gc=False):
    pass


class FunctionDelta(_Base, gc=False):
    """A fragment of a call; `arguments` is text, or an object at servers that do not stream it."""

    name: str | None = None
    arguments: object = None


class GoogleExtra(_Base, gc=False):
    """Gemini's signature behind an OpenAI-compatible endpoint (vercel#18964)."""

    thought_signature: str | None = None


class ExtraContent(_Base, gc=False):
    """Vendor additions to a call."""

    google: GoogleExtra | None = None


class ToolDelta(_Base, gc=False):
    """An entry of `tool_calls`."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    extra_content: ExtraContent | None = None
    thought_signature: str | None = None


class ContentPart(_Base, gc=False):
    """An entry of `content` where that is a list (Mistral)."""

    type: str | None = None
    text: str | None = None
    thinking: object = None


class Delta(_Base, gc=False):
    """A delta, or a whole message."""

    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[dict[str, object]] | None = None
    refusal: str | None = None
    images: list[dict[str, object]] | None = None
    tool_calls: list[ToolDelta] | None = None
    function_call: FunctionDelta | None = None


class PromptDetails(_Base, gc=False):
    """Parts of the prompt."""

    cached_tokens: object = None
    cache_write_tokens: object = None


class CompletionDetails(_Base, gc=False):
    """Parts of the completion."""

    reasoning_tokens: object = None


class ChatUsage(_Base, gc=False):
    """Usage; DeepSeek has its own word for cache hits, OpenRouter adds the cost."""

    prompt_tokens: object = None
    completion_tokens: object = None
    total_tokens: object = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: object = None
    cost: object = None


class Choice(_Base, gc=False):
    """A choice. `usage` in it is Moonshot's (pi#2017)."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    usage: ChatUsage | None = None
    error: object = None


class GroqExtra(_Base, gc=False):
    """Groq's addition to a chunk."""

    usage: ChatUsage | None = None


class ChatChunk(_Base, gc=False):
    """One event. `error` may be of any type."""

    choices: list[Choice] | None = None
    id: str | None = None
    model: str | None = None
    provider: str | None = None
    usage: ChatUsage | None = None
    x_groq: GroqExtra | None = None
    error: object = None


class OpenAIChat:
    """Reads chat chunks. Text, reasoning and calls go to blocks in the order they come."""

    payload = Payload(ChatChunk)
    ends_with_done = True

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._tracker = CallTracker(reply)

    def read(self, event: SSEvent, message: ChatChunk) -> None:
        """Reads one chunk: an error first, then what the choice says, then usage."""
        reply = self._reply
        if message.provider:
            reply.meta.serving_provider = message.provider
        if message.error or event.raw_name == b"error":
            reply.fail_with(message.error or read_object(event.data))
            return
        if not message.choices and not self._is_chunk(event):
            return
        if not reply.started:
            reply.meta.response_id = message.id or None
            reply.start(message.model)
        for choice in message.choices or ():
            if not choice.index:  # 0 or none: further choices are not the reply
                self._read_choice(choice)
                break
        if message.usage is not None:
            self._read_usage(message.usage)
        elif message.x_groq is not None and message.x_groq.usage is not None:
            self._read_usage(message.x_groq.usage)

    def read_body(self, event: SSEvent, message: ChatChunk) -> None:
        """Reads a whole completion: it is complete even if it does not say why it stopped."""
        self.read(event, message)
        if message.choices and self._reply.stop is None:
            self._reply.stop = StopReason.STOP

    def close(self) -> None:
        """Nothing is open beyond the blocks themselves."""

    def _is_chunk(self, event: SSEvent) -> bool:
        """Looks at an object without choices: a usage chunk, a flat error, or none of ours."""
        value = read_object(event.data)
        if value.get("type") == "error" or value.get("object") == "error":  # vLLM's is flat
            self._reply.fail_with(value)
            return False
        if not value.keys() & {"choices", "usage", "id"}:
            self._reply.meta.unknown += 1
            return False
        return True

    def _read_choice(self, choice: Choice) -> None:
        if choice.error:
            self._reply.fail_with(choice.error)
            return
        if choice.delta is not None:
            self._read_delta(choice.delta)
        elif choice.message is not None:
            self._read_whole(choice.message)
        if choice.usage is not None:
            self._read_usage(choice.usage)
        if choice.finish_reason:
            self._finish(choice.finish_reason, choice.native_finish_reason)

    def _finish(self, word: str, native: str | None) -> None:
        meta = self._reply.meta
        meta.raw_stop_reason = word
        meta.native_stop_reason = native or meta.native_stop_reason
        word = word.lower()  # proxies of Gemini hand its own `STOP` and `MAX_TOKENS` on
        if word in FAILURES:
            self._reply.fail(word, FAILURES[word])
        else:
            self._reply.stop = STOP_REASONS.get(word, StopReason.UNKNOWN)

    def _read_delta(self, delta: Delta) -> None:
        reply = self._reply
        if delta.reasoning_details or delta.reasoning_content or delta.reasoning:
            self._read_reasoning(delta)
        elif delta.reasoning_text:
            reply.think(delta.reasoning_text)
        content = delta.content
        if content:
            if isinstance(content, str):
                reply.text(content)
            else:
                self._read_parts(content)
        if delta.refusal:
            reply.refused = True
            reply.text(delta.refusal)
        for image in delta.images or ():
            reply.keep(image)  # OpenRouter's, and that of gateways in its form
        if delta.tool_calls:
            for fragment in delta.tool_calls:
                self._read_call(fragment)
        if delta.function_call is not None:
            self._read_call(ToolDelta(index=LEGACY_INDEX, function=delta.function_call))

    def _read_whole(self, message: Delta) -> None:
        """A whole message where a delta belongs: only what deltas have not said already."""
        if self._reply.has_text:
            message.content = message.refusal = None
        if self._reply.calls:
            message.tool_calls = message.function_call = None
        if any(isinstance(part, ThinkingPart) for part in self._reply.blocks):
            message.reasoning_content = message.reasoning = message.reasoning_text = None
            message.reasoning_details = None
        self._read_delta(message)

    def _read_reasoning(self, delta: Delta) -> None:
        """Details first: the flat fields repeat them. Of the flat ones the first that says some."""
        said = [self._read_detail(detail) for detail in delta.reasoning_details or ()]
        if not any(said):
            flat = delta.reasoning_content or delta.reasoning or delta.reasoning_text
            if flat:
                self._reply.think(flat)

    def _read_detail(self, detail: dict[str, object]) -> bool:
        """Reads an entry of OpenRouter's `reasoning_details`; true if it held text."""
        kind = detail.get("type")
        text, signature = word_of(detail.get("text")), word_of(detail.get("signature"))
        if kind == "reasoning.text" and (text or signature):
            # A signature alone belongs to the reasoning that stands, even after text has begun
            # (OpenRouter#458); opening a block for it would double the reasoning in the replay.
            block = None if text else self._last_thinking()
            self._reply.think(text, signature or None, block)
            return bool(text)
        if kind == "reasoning.summary":
            summary = word_of(detail.get("summary"))
            if summary:
                self._reply.think(summary)
            return bool(summary)
        if kind == "reasoning.encrypted" and detail.get("data"):
            self._reply.meta.reasoning_encrypted.append(scrub(detail))
        return False

    def _last_thinking(self) -> ThinkingPart | None:
        for part in reversed(self._reply.blocks):
            if isinstance(part, ThinkingPart):
                return part
        return None

    def _read_parts(self, parts: list[ContentPart]) -> None:
        for part in parts:
            if part.type == "text" and part.text:
                self._reply.text(part.text)
            elif part.type == "thinking":
                inner = part.thinking if isinstance(part.thinking, list) else [part.thinking]
                for entry in inner:
                    said = word_of(entry.get("text")) if isinstance(entry, dict) else word_of(entry)
                    if said:
                        self._reply.think(said)

    def _read_call(self, fragment: ToolDelta) -> None:
        function = fragment.function or FunctionDelta()
        arguments = function.arguments
        if not (fragment.id or function.name) and isinstance(arguments, str) and arguments:
            is_plain = fragment.extra_content is None and fragment.thought_signature is None
            if is_plain and self._tracker.proceed(fragment.index, arguments):
                return
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = write_json(arguments)
        name = function.name
        if name:
            # Harmony's control tokens leak into names (`get_weather<|channel|>commentary`).
            name = name.split("<|", maxsplit=1)[0].strip()
        call_id = fragment.id.strip() if fragment.id else ""
        call = self._tracker.add(call_id, fragment.index, name or "", arguments)
        extra = fragment.extra_content
        signature = extra.google.thought_signature if extra and extra.google else None
        if signature or fragment.thought_signature:
            call.signature = signature or fragment.thought_signature

    def _read_usage(self, usage: ChatUsage) -> None:
        details = usage.prompt_tokens_details or PromptDetails()
        prompt, cached = count(usage.prompt_tokens), count(details.cached_tokens)
        written, total = count(details.cache_write_tokens), count(usage.total_tokens)
        output = count(usage.completion_tokens)
        completion = usage.completion_tokens_details or CompletionDetails()
        reasoning = count(completion.reasoning_tokens)
        if cached is None:
            cached = count(usage.prompt_cache_hit_tokens)
        is_known = prompt is not None and output is not None
        if is_known and reasoning and total == added(prompt, output, reasoning):
            output = added(output, reasoning)  # xAI counts reasoning beside the completion
        if prompt is not None and cached is not None and cached > prompt:
            prompt += cached + (written or 0)  # counted without the cache (vercel#12485)
        self._reply.count(
            {
                "input": prompt,
                "output": output,
                "reasoning": reasoning,
                "cache_read": cached,
                "cache_write": written,
                "total": total,
                "cost": count(usage.cost),
            }
        )
