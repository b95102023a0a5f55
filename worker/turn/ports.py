"""What a turn needs of the world, as protocols that `worker.edges` fulfils.

Comes in: nothing. Goes out: the shapes that `runner` is written against. The fakes of the tests
fulfil them too.
"""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from shared.failures import ErrorReport, FaultDetails
from shared.secrets import Secret
from shared.segments import Segment, TurnDone, TurnFailed
from shared.tools import ToolContext
from shared.turns import (
    AttemptToken,
    AttemptUsage,
    Target,
    ToolSpec,
    TurnOutcome,
    TurnRequest,
)
from worker.failures.accounts import Entered, Stop
from worker.failures.traffic import Signal
from worker.providers.requests import HttpRequest, KeyedEndpoint, ModelRequest


class ResponsePort(Protocol):
    """An answer whose headers have arrived."""

    status: int
    headers: tuple[tuple[str, str], ...]

    async def more(self) -> bytes | None:
        """What has come of the body since; None at its end; cancelling loses nothing.

        Nothing (`b""`) when it was interrupted, or what came is not to be told yet. Raises
        `EndpointError` when the connection breaks.
        """
        ...

    def interrupt(self) -> None:
        """Lets `more`, now or next time, return at once."""
        ...

    async def error_body(self) -> bytes:
        """The body of an answer that is no stream, bounded."""
        ...


class ProviderPort(Protocol):
    """The way to providers."""

    def open(self, request: HttpRequest) -> AbstractAsyncContextManager[ResponsePort]:
        """Sends a request and waits for the headers. Raises `EndpointError`."""
        ...


class KeysPort(Protocol):
    """Addresses of providers, and the pools of keys that open them."""

    async def endpoint(
        self, provider: str, tried: frozenset[str], request: TurnRequest
    ) -> KeyedEndpoint:
        """A provider's address with a key that was not tried yet, or the turn's own one.

        Raises:
            ConfigError: nobody said where the provider listens.
        """
        ...

    async def rest(self, provider: str, chosen: str, rest_s: float) -> None:
        """Leaves a key alone for a while, in the whole fleet. It never raises."""
        ...


class TrafficPort(Protocol):
    """The fleet's breaker and retry budget for each model. It never raises."""

    async def ask(self, target: Target, *, again: bool) -> Signal:
        """Whether a request may be sent now; `again` for a retry at the same model."""
        ...

    async def heard(self, target: Target, failure: str | None) -> None:
        """Notes an answer (None), or the cause of a failure that speaks against the model."""
        ...


class AccountsPort(Protocol):
    """Prices and budgets."""

    async def stop_of(self, request: TurnRequest, target: Target) -> Stop | None:
        """Why a provider must not be asked; waits while nobody knows what was spent."""
        ...

    async def enter(self, request: TurnRequest, token: AttemptToken, one: AttemptUsage) -> Entered:
        """Prices an attempt and adds it to its budgets, once. It never raises."""
        ...


class ContextPort(Protocol):
    """What a turn reads beside its own prompt, and what it leaves for later ones."""

    async def prepared(self, request: TurnRequest) -> TurnRequest:
        """The turn with the channel's history, files and notes; waits while Redis is away."""
        ...

    def fitted(self, question: ModelRequest) -> ModelRequest:
        """The question as its model can read it: without pictures, or shorter."""
        ...

    async def noted(self, request: TurnRequest, outcome: TurnOutcome) -> None:
        """Keeps what a reply noted for later ones. It never raises."""
        ...


class OutboxPort(Protocol):
    """The way back of one turn; every write is fenced by the turn's token."""

    @property
    def token(self) -> AttemptToken:
        """The attempt that may write now."""
        ...

    async def send(self, segment: Segment) -> bool:
        """Appends a segment, waiting while the out stream is full. Raises `Fenced`.

        False: it is full and a user stopped the turn; this segment, and what follows, is not sent.
        """
        ...

    async def preview(self, text: str) -> None:
        """Shows what there is of the next segment, or does not. Raises `Fenced`."""
        ...

    async def next_attempt(self) -> AttemptToken:
        """Starts the next attempt; what the old one showed is superseded. Raises `Fenced`."""
        ...

    async def note_tool(self) -> None:
        """Remembers that a tool is about to run: it is never run again. Raises `Fenced`."""
        ...

    async def keep_rounds(self, kept: bytes) -> None:
        """Stores the completed rounds: who takes the turn over goes on from there.

        Where that fails the turn cannot be taken over. Raises `Fenced`.
        """
        ...

    async def kept_rounds(self) -> bytes | None:
        """The rounds that an earlier claim of this turn completed, None for none."""
        ...

    async def finish(self, event: TurnDone | TurnFailed, outcome: TurnOutcome) -> None:
        """Ends the turn with its one terminal event. Raises `Fenced`."""
        ...

    async def keep_recording(self, payload: bytes) -> None:
        """Stores the recording of the current attempt."""
        ...

    async def keep_thoughts(self, text: str, keep_s: int) -> bool:
        """Stores what the model thought; whether it can be looked at. It never raises."""
        ...

    async def may_tell(self, channel_id: int, word: str) -> bool:
        """Whether a channel was not told this lately; from now on it was. It never raises."""
        ...

    async def keep_picture(self, picture_id: str, data: bytes) -> bool:
        """Stores a picture for the segment that names it; False where that cannot be done."""
        ...

    async def keep_continuation(self, payload: bytes) -> None:
        """Stores a reply that was cut off, for the turn that goes on with it. It never raises."""
        ...

    async def keep_details(self, report_id: str, details: FaultDetails) -> None:
        """Stores what the modal "Show full error" may open. It never raises."""
        ...


class ToolsPort(Protocol):
    """The installed tools."""

    def offered(self, guild_id: int | None) -> tuple[ToolSpec, ...]:
        """What a model may call for a guild, or in a direct message."""
        ...

    def complaint(self, name: str, args: dict[str, object]) -> str | None:
        """What is wrong with the arguments of an offered tool, in words for the model."""
        ...

    def is_repeatable(self, name: str) -> bool:
        """Whether an offered tool may run twice without harm."""
        ...

    async def run(self, name: str, args: dict[str, object], context: ToolContext) -> str:
        """Runs an offered tool. Raises `ToolError`."""
        ...


class ReporterPort(Protocol):
    """Where reports of failed attempts go. It never raises."""

    async def report(self, report: ErrorReport, secrets: Iterable[Secret | str] = ()) -> None:
        """Writes the JSON log line and sends the report to the recorder, without the secrets."""
        ...


class Clock(Protocol):
    """Time as the driver sees it."""

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        ...

    def epoch_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class TimeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a turn waits for what. The reasons stand beside the settings of the same names."""

    first_byte_s: float
    between_chunks_s: float
    whole_stream_s: float
    turn_deadline_s: float
