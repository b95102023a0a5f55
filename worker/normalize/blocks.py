"""Content blocks while they grow: what `done.content` will hold, in parts.

Comes in: deltas. Goes out: blocks of `shared.messages`. Imported by `reply` and the dialects.
Text is kept as a list of parts: `+=` on a growing string costs its whole length at each delta.
"""

from shared.messages import (
    ArgumentState,
    ContentBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from worker.normalize.partial_json import ArgumentText, final_arguments
from worker.normalize.storable import scrub, scrub_text


class Part:
    """A block that may still grow. `index` is its place in `done.content`."""

    __slots__ = ("high", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.high = ""
        """The first half of a surrogate pair whose second half is still to come."""

    def mended(self, delta: str) -> str:
        """`delta` with halves of pairs joined across deltas; NUL and orphaned halves are gone."""
        text = self.high + delta
        self.high = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self.high = text[-1]
            text = text[:-1]
        return scrub_text(text)

    def tail(self) -> str:
        """What stands for a half whose other half never came."""
        high, self.high = self.high, ""
        return "\ufffd" if high else ""

    def finished(self) -> ContentBlock:
        """The block as it stands."""
        raise NotImplementedError


class TextPart(Part):
    """Visible text, and what its provider wants back with it."""

    __slots__ = ("_counted", "_length", "citations", "item_id", "parts", "phase", "signature")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.parts: list[str] = []
        self._counted = 0
        self._length = 0
        """Characters of the first `_counted` parts."""
        self.signature: str | None = None
        self.item_id: str | None = None
        self.phase: str | None = None
        self.citations: list[object] = []

    @property
    def length(self) -> int:
        """Characters so far; each part is counted once, however often it is asked for."""
        self._length += sum(map(len, self.parts[self._counted :]))
        self._counted = len(self.parts)
        return self._length

    def joined(self) -> str:
        """The text so far."""
        return "".join(self.parts)

    def finished(self) -> TextBlock:
        """The block as it stands."""
        return TextBlock(
            text=self.joined(),
            text_signature=self.signature,
            item_id=self.item_id,
            phase=self.phase,
            citations=[scrub(citation) for citation in self.citations] or None,
        )


class ThinkingPart(Part):
    """Reasoning. `redacted` marks a block that is nothing but an opaque signature."""

    __slots__ = ("parts", "redacted", "signature")

    def __init__(self, index: int, *, redacted: bool = False) -> None:
        super().__init__(index)
        self.parts: list[str] = []
        self.signature: str | None = None
        self.redacted = redacted

    def finished(self) -> ThinkingBlock:
        """The reasoning so far, with the last signature that came."""
        return ThinkingBlock(
            thinking="".join(self.parts),
            thinking_signature=self.signature,
            redacted=self.redacted,
        )


class OpaquePart(Part):
    """A provider's own block, kept as it came for replay to that provider."""

    __slots__ = ("provider", "raw")

    def __init__(self, index: int, provider: str, raw: object) -> None:
        super().__init__(index)
        self.provider = provider
        self.raw = raw

    def finished(self) -> OpaqueBlock:
        """The block as it came."""
        return OpaqueBlock(provider=self.provider, raw=scrub(self.raw))


class CallPart(Part):
    """A tool call. Nothing is emitted of it before it is `announced`; then id and name are fixed.

    Args:
        tainted: its text may have a hole, for an event was lost while it was open, or miss its end.
        closed: its provider said that it is complete.
        value: the arguments, where they came as a whole object; `text` is their JSON then.
    """

    __slots__ = (
        "announced",
        "closed",
        "id",
        "item_id",
        "name",
        "signature",
        "tainted",
        "text",
        "value",
    )

    def __init__(self, index: int, call_id: str, name: str) -> None:
        super().__init__(index)
        self.id = call_id
        self.name = name
        self.text = ArgumentText()
        self.announced = False
        self.tainted = False
        self.closed = False
        self.value: dict[str, object] | None = None
        self.signature: str | None = None
        self.item_id: str | None = None

    def arguments(self) -> str:
        """The argument text so far."""
        return self.text.upto(self.text.length)

    def finished(self) -> ToolCallBlock:
        """The call with the verdict over its arguments."""
        return self.judged()[0]

    def judged(self) -> tuple[ToolCallBlock, ArgumentState]:
        """The call, and what may be done with its arguments."""
        if self.value is not None:
            arguments, state = self.value, ArgumentState.OK
        else:
            arguments, state = final_arguments(self.arguments())
        if self.tainted and state is ArgumentState.OK:
            state = ArgumentState.TRUNCATED
        block = ToolCallBlock(
            id=self.id,
            name=self.name,
            arguments=arguments,
            arguments_truncated=state is not ArgumentState.OK,
            thought_signature=self.signature,
            item_id=self.item_id,
        )
        return block, state
