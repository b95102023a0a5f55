"""One reply under assembly: dialects say what came, `Reply` makes events and blocks of it.

Comes in: text, reasoning, calls, counts and faults, in the words of no provider. Goes out: the
canonical events, and at the end `done.content`. Imported by `normalizer` and the dialects.
"""

import hashlib
from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from shared.messages import ArgumentState, ContentBlock
from shared.turns import StopReason
from worker.normalize.blocks import CallPart, OpaquePart, Part, TextPart, ThinkingPart
from worker.normalize.events import (
    Done,
    FaultReason,
    Start,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from worker.normalize.faults import reason_of, serving_provider_of
from worker.normalize.meta import Meta
from worker.normalize.partial_json import ArgumentText
from worker.normalize.storable import join_halves, mend, scrub, scrub_text

MAX_CALLS = 128
"""What OpenAI takes in one message; more than any turn runs."""

MAX_ARGUMENT_CHARS = 1024 * 1024
"""A file of a megabyte as an argument; beyond that a model repeats itself."""

MAX_BLOCKS = 4096
"""Forty times the parts of the longest recorded reply; a block costs memory even if empty."""

_Grown = TypeVar("_Grown", bound=Part)

NAMELESS = "unknown"
"""The name of a call that never got one; it is no tool's name, so the call is refused."""

OWN_ENDS = frozenset({StopReason.STOP, StopReason.TOOL_USE, StopReason.PAUSE})
"""Where the model ended by itself, so that a call without argument text is one without arguments.
At any other end it may have been cut before the first of them."""

USAGE_ORDER = ("input", "output", "reasoning", "cache_read", "cache_write", "total", "cost")


class Reply:
    """Blocks, usage and stop reason of one stream.

    `stop` is set by the dialect when the provider has said why it stopped; the stream may go on
    after that. `ended` is true once a terminal event was made: everything later is ignored.
    """

    def __init__(self, provider: str, model: str, tools: frozenset[str]) -> None:
        self.provider = provider
        self.model = model
        self.tools = tools
        """Names of the exposed tools; none means that no name is unknown."""
        self.meta = Meta()
        self.stop: StopReason | None = None
        self.started = False
        self.ended = False
        self.refused = False
        """The model refused in words: whatever it says, the stop reason is `content_filter`."""
        self.ragged = False
        """A payload came through the lenient decoder: strings may hold halves of pairs."""
        self.blocks: list[Part] = []
        self.calls: list[CallPart] = []
        self.current: Part | None = None
        """The block that an unaddressed delta of its kind continues."""
        self.events: list[StreamEvent] = []
        """Events since the last `take`; after the end a sink, so that nothing need ask."""
        self._last_events: list[StreamEvent] = []
        self.settle_usage: Callable[[], None] | None = None
        """Brings `meta.usage` up to date, for a dialect that puts it off to the end."""
        self._call_ids: set[str] = set()

    def take(self) -> list[StreamEvent]:
        """The events made since the last call, up to the terminal one."""
        if self.ended:
            events, self._last_events = self._last_events, []
            return events
        events, self.events = self.events, []
        return events

    @property
    def has_text(self) -> bool:
        """True if visible text has come."""
        return any(isinstance(part, TextPart) and any(part.parts) for part in self.blocks)

    def start(self, model: str | None = None) -> None:
        """The stream began; later calls do nothing."""
        if not self.started:
            self.started = True
            model = scrub_text(model or self.model)
            self.events.append(Start(model=model, provider=self.provider))

    # Text and reasoning

    def open_text(self) -> TextPart:
        """Begins a text block."""
        return self._opened(TextPart(len(self.blocks)))

    def open_thinking(self, *, redacted: bool = False) -> ThinkingPart:
        """Begins a block of reasoning."""
        return self._opened(ThinkingPart(len(self.blocks), redacted=redacted))

    def keep(self, raw: object, *, provider: str | None = None) -> OpaquePart:
        """Keeps a provider's own block for replay."""
        return self._opened(OpaquePart(len(self.blocks), provider or self.provider, raw))

    def text(self, delta: str, block: TextPart | None = None) -> TextPart:
        """Visible text, for `block` or for the open text block."""
        if block is None:
            current = self.current
            block = current if isinstance(current, TextPart) else self.open_text()
        if self.ragged or "\0" in delta:
            delta = block.mended(delta)
        if delta:
            block.parts.append(delta)
            self.events.append(TextDelta(index=block.index, delta=delta))
        return block

    def think(
        self, delta: str, signature: str | None = None, block: ThinkingPart | None = None
    ) -> ThinkingPart:
        """Reasoning, for `block` or for the open one; a signature replaces an earlier one."""
        if block is None:
            current = self.current
            block = current if isinstance(current, ThinkingPart) else self.open_thinking()
        if self.ragged or "\0" in delta:
            delta = block.mended(delta)
            signature = signature and join_halves(signature)
        if signature:
            block.signature = signature
        if delta or signature:
            block.parts.append(delta)
            event = ThinkingDelta(index=block.index, delta=delta, signature=signature or None)
            self.events.append(event)
        return block

    # Calls

    def open_call(self, call_id: str, name: str) -> CallPart:
        """Begins a tool call. An id that is taken already counts as missing."""
        call = CallPart(len(self.blocks), "", scrub_text(name))
        self.identify(call, call_id)
        self.calls.append(call)
        if len(self.calls) > MAX_CALLS:
            self.fail("limit_exceeded", f"more than {MAX_CALLS} tool calls in one reply")
        return self._opened(call)

    def identify(self, call: CallPart, call_id: str) -> None:
        """Gives an unannounced call its id, unless it has one or another call has this one."""
        call_id = scrub_text(call_id)
        if call_id and not call.id and not call.announced and call_id not in self._call_ids:
            call.id = call_id
            self._call_ids.add(call_id)

    def arguments(self, call: CallPart, delta: str) -> None:
        """Adds argument text, and announces the call as soon as its name is certain.

        It is certain when arguments follow, or when it is the name of an exposed tool and the id is
        known too; servers split names over deltas and send ids late.
        """
        if self.ragged or "\0" in delta:
            delta = call.mended(delta)
        if delta:
            end = call.text.append(delta)
            if end > MAX_ARGUMENT_CHARS:
                self.fail_too_long()
            if call.announced:
                event = ToolCallDelta(
                    index=call.index,
                    id=call.id,
                    name=call.name,
                    raw_json_delta=delta,
                    text=call.text,
                    end=end,
                )
                self.events.append(event)
                return
        is_certain = call.text.length or (call.id and self.is_tool(call.name))
        if call.name and is_certain:
            self.announce(call)

    def replace_arguments(self, call: CallPart, text: str) -> None:
        """Takes another argument text in place of what streamed; events keep what they said."""
        call.text = ArgumentText()
        call.high = ""
        if call.announced:
            call.text.append(call.mended(text))
            if call.text.length > MAX_ARGUMENT_CHARS:
                self.fail_too_long()
        else:
            self.arguments(call, text)

    def is_tool(self, name: str) -> bool:
        """True if a tool of this name was offered, or if nobody said what was offered."""
        return not self.tools or name in self.tools

    def announce(self, call: CallPart) -> None:
        """Emits the first event of a call; id and name are fixed from here on."""
        if call.announced or self.ended:
            return
        self.ensure_id(call)
        call.announced = True
        call.name = call.name or NAMELESS
        event = ToolCallDelta(
            index=call.index,
            id=call.id,
            name=call.name,
            raw_json_delta=call.arguments(),
            text=call.text,
            end=call.text.length,
        )
        self.events.append(event)

    def ensure_id(self, call: CallPart) -> None:
        """Gives a call that has no id one of ours, the same whenever these bytes are read again.

        Replays and prompt caches need it so; a random id would also make the cutting matter.
        """
        if not call.id:
            seed = scrub_text(f"{self.meta.response_id or ''}|{call.index}")
            digest = hashlib.blake2s(seed.encode(), digest_size=6).hexdigest()
            self.identify(call, f"call_{digest}")

    def taint(self) -> None:
        """An event was lost: no call that is still open may run."""
        for call in self.calls:
            call.tainted = call.tainted or not call.closed

    # The end

    def done(self, stop: StopReason) -> None:
        """Ends the stream well: open calls are announced, blocks are finished."""
        if self.ended:
            return
        self.start()
        self._end_halves()
        for call in self.calls:
            self.announce(call)
        if self.refused:
            stop = StopReason.CONTENT_FILTER
        elif stop is StopReason.STOP and self.calls:
            stop = StopReason.TOOL_USE
        if stop not in OWN_ENDS:
            for call in self.calls:
                call.tainted = call.tainted or not call.arguments().strip()
        content = [self._finished(part) for part in self.blocks]
        if self.ragged:
            content = [msgspec.convert(mend(msgspec.to_builtins(b)), type(b)) for b in content]
        self._end(Done(stop_reason=stop, content=content, usage=self._final_usage()))

    def fail(
        self, code: str | None, message: str, *, status: int | None = None, body: object = None
    ) -> None:
        """Ends the stream with a fault of our own, or one that came without an error object."""
        facts = {"code": code, "message": message} if body is None else scrub(body)
        self._fail(FaultReason(code=code, message=message, status=status), facts)

    def fail_with(self, error: object) -> None:
        """Ends the stream with the error that the provider sent, of any shape."""
        error = scrub(error)
        if self.meta.serving_provider is None:
            self.meta.serving_provider = serving_provider_of(error)
        self._fail(reason_of(error), error)

    def fail_too_long(self) -> None:
        """Ends the stream because a call's arguments are too long."""
        what = f"the arguments of a call are longer than {MAX_ARGUMENT_CHARS} characters"
        self.fail("limit_exceeded", what)

    def count(self, counts: dict[str, int | float | None]) -> None:
        """Takes usage; the last value of each field wins, None leaves what was known."""
        for name, number in counts.items():
            if number is not None:
                self.meta.usage[name] = number

    def _fail(self, reason: FaultReason, body: object) -> None:
        if self.ended:
            return
        if self.started:
            self._end_halves()
        self.meta.error_body = body
        self._final_usage()
        self._end(StreamFailed(reason=reason))

    def _end(self, event: Done | StreamFailed) -> None:
        self.ended = True
        self.events.append(event)
        self._last_events, self.events = self.events, []
        if self.ragged:
            self.meta = msgspec.convert(scrub(msgspec.to_builtins(self.meta)), Meta)

    def _end_halves(self) -> None:
        for part in self.blocks:
            tail = part.tail()
            if not tail:
                continue
            if isinstance(part, TextPart):
                self.text(tail, part)
            elif isinstance(part, ThinkingPart):
                self.think(tail, block=part)
            else:
                self.arguments(cast("CallPart", part), tail)

    def _finished(self, part: Part) -> ContentBlock:
        if not isinstance(part, CallPart):
            return part.finished()
        block, state = part.judged()
        if state is not ArgumentState.OK:
            self.meta.argument_states[part.id] = state
        return block

    def _final_usage(self) -> dict[str, int | float]:
        if self.settle_usage is not None:
            self.settle_usage()
        usage = self.meta.usage
        if "total" not in usage and "input" in usage and "output" in usage:
            usage["total"] = usage["input"] + usage["output"]
        self.meta.usage = {name: usage[name] for name in USAGE_ORDER if name in usage}
        return dict(self.meta.usage)

    def _opened(self, part: _Grown) -> _Grown:
        self.start()
        self.blocks.append(part)
        self.current = part
        if len(self.blocks) > MAX_BLOCKS:
            self.fail("limit_exceeded", f"more than {MAX_BLOCKS} blocks in one reply")
        return part
