"""The values of a rehearsal: what was asked, what is framed, what is refused, what is counted.

Comes in: nothing. Goes out: the vocabulary between judges, voices, scenarios and the player.
Anyone in `ops.rehearsal` may import it.
"""

from typing import Protocol

import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request that passed its judge, in words that no wire format owns.

    Args:
        prompt: text of the last user message.
        tool_results: texts of the tool results that stand at the end of the history.
        tools: names of the offered tools.
        blocks: the request's content in the vendor's order of caching (tools, system, messages),
            one text per block; tokens are counted over it and prompt caching compares it.
        breakpoints: how many blocks stand before each explicit cache breakpoint; None where the
            vendor caches by itself.
        wants_usage: whether the stream is to end with token counts.
        wants_thinking: whether reasoning was asked for, False where it was switched off.
    """

    model: str
    prompt: str
    tool_results: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    breakpoints: tuple[int, ...] | None = None
    wants_usage: bool = True
    wants_thinking: bool = True
    is_streamed: bool = True


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error as one vendor words it; the same facts serve as HTTP answer and inside a stream."""

    status: int
    message: str
    type: str = ""
    code: str | int | None = None
    param: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    details: list[dict[str, object]] = msgspec.field(default_factory=list)


class Frame(msgspec.Struct, frozen=True):
    """Bytes to be written at once, and how many code points of visible text they complete."""

    payload: bytes
    visible_chars: int = 0


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one answer; `prompt` includes what was read from and written to the cache."""

    prompt: int
    cached: int
    cache_written: int
    output: int
    reasoning: int


class Voice(Protocol):
    """The frames of one answer in one wire format. Every method returns what is to be written."""

    media_type: str

    def start(self, count: Count) -> list[Frame]:
        """Opens the answer."""
        ...

    def heartbeat(self) -> list[Frame]:
        """A sign of life that says nothing."""
        ...

    def think(self, delta: str) -> list[Frame]:
        """Adds reasoning."""
        ...

    def say(self, delta: str) -> list[Frame]:
        """Adds visible text."""
        ...

    def refuse(self, delta: str) -> list[Frame]:
        """Adds the text of a refusal."""
        ...

    def draw(self, data: str) -> list[Frame]:
        """Adds a picture, base64."""
        ...

    def call(self, name: str, arguments: str) -> list[Frame]:
        """Adds a whole tool call, cut into deltas as the vendor cuts them."""
        ...

    def fail(self, fault: Fault) -> list[Frame]:
        """Breaks the answer off with an error inside the stream."""
        ...

    def finish(self, reason: str, count: Count) -> list[Frame]:
        """Closes the answer: `stop`, `length`, `tool_use` or `content_filter`."""
        ...


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says outside of its body; `model` stands in the path at some vendors."""

    headers: dict[str, str]
    query: dict[str, str] = msgspec.field(default_factory=dict)
    model: str | None = None


class Judge(Protocol):
    """A vendor's door: its words for a fault, and what it accepts."""

    vendor: str

    def key(self, facts: Facts) -> str | None:
        """The API key of a request, None where it carries none."""
        ...

    def read(self, body: object, facts: Facts) -> Ask | Fault:
        """Checks a decoded request."""
        ...

    def error_body(self, fault: Fault) -> bytes:
        """The body of an HTTP error."""
        ...
