"""The ports of a turn, played: a scripted provider, an outbox and a reporter that remember.

Comes in: scripts of what the provider does. Goes out: what the runner wrote, in order.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

from shared.causes import Cause
from shared.errors import ConfigError, EndpointError, Fenced
from shared.failures import ErrorReport, FaultDetails
from shared.secrets import Secret
from shared.segments import Segment, TurnDone, TurnFailed
from shared.turns import AttemptToken, AttemptUsage, Target, TurnOutcome, TurnRequest
from worker.edges.clock import SystemClock
from worker.edges.tools import Toolbox
from worker.failures.accounts import Entered, Stop
from worker.failures.traffic import GO, Signal, Traffic
from worker.providers.requests import Endpoint, HttpRequest, KeyedEndpoint, ModelRequest
from worker.turn.ports import KeysPort, ProviderPort, TimeLimits, ToolsPort
from worker.turn.runner import TurnRunner
from worker.turn.tool_rounds import ToolLimits

SILENCE = object()
"""A step of a script: nothing comes any more, and nobody closes."""
BREAK = EndpointError("ReadError")
"""A step of a script: the connection breaks."""

Step = bytes | EndpointError | object

NO_TOOLS = Toolbox((), {})
"""The real toolbox, empty."""

GENEROUS = TimeLimits(first_byte_s=5, between_chunks_s=5, whole_stream_s=10, turn_deadline_s=20)


class Forgetful:
    """A context that knows nothing of any channel."""

    async def prepared(self, request: TurnRequest) -> TurnRequest:
        return request

    def fitted(self, question: ModelRequest) -> ModelRequest:
        return question

    async def noted(self, request: TurnRequest, outcome: TurnOutcome) -> None:
        pass


class FreeOfCharge:
    """Accounts without budgets and prices; `stop` is the answer to every question."""

    def __init__(self, stop: Stop | None = None) -> None:
        self.stop = stop

    async def stop_of(self, request: TurnRequest, target: Target) -> Stop | None:
        return self.stop

    async def enter(self, request: TurnRequest, token: AttemptToken, one: AttemptUsage) -> Entered:
        return Entered(usage=one)


class ScriptedResponse:
    """An answer that plays its steps."""

    def __init__(
        self,
        steps: Iterable[Step],
        status: int = 200,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.status = status
        self.headers = headers
        self._steps = list(steps)
        self._at = 0
        self._interrupted = asyncio.Event()
        self.is_closed = False
        self.reached = asyncio.Event()

    def begin(self) -> None:
        """Plays from the start: it is the answer to another request."""
        self._at, self.is_closed = 0, False

    async def more(self) -> bytes | None:
        assert not self.is_closed
        if self._at == len(self._steps):
            self.reached.set()
            return None
        step = self._steps[self._at]
        if isinstance(step, (bytes, EndpointError)):
            self._at += 1
        if isinstance(step, bytes):
            return step
        if isinstance(step, EndpointError):
            raise step
        self.reached.set()
        await self._interrupted.wait()
        self._interrupted.clear()
        return b""

    def interrupt(self) -> None:
        self._interrupted.set()

    async def error_body(self) -> bytes:
        return b"".join(step for step in self._steps if isinstance(step, bytes))


class ScriptedProvider:
    """Gives the answers in order; an `EndpointError` or `SILENCE` stands for an opening."""

    def __init__(self, *answers: ScriptedResponse | EndpointError | object) -> None:
        self._answers = iter(answers)
        self.requests: list[HttpRequest] = []
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def open(self, request: HttpRequest) -> AsyncIterator[ScriptedResponse]:
        self.requests.append(request)
        self.asked.set()
        answer = next(self._answers)
        if isinstance(answer, EndpointError):
            raise answer
        if not isinstance(answer, ScriptedResponse):
            await asyncio.Event().wait()
        assert isinstance(answer, ScriptedResponse)
        answer.begin()
        try:
            yield answer
        finally:
            answer.is_closed = True


class RememberingOutbox:
    """An outbox that keeps what it is given; `fence_at` refuses from that segment on."""

    def __init__(self, turn_id: str = "l1", *, fence_at: int | None = None) -> None:
        self.token = AttemptToken(turn_id=turn_id, attempt=1, claim="0a1b2c3d")
        self.segments: list[Segment] = []
        self.ends: list[tuple[TurnDone | TurnFailed, TurnOutcome]] = []
        self.previews: list[str] = []
        self.recordings: list[bytes] = []
        self.details: dict[str, FaultDetails] = {}
        self.thoughts: list[tuple[str, int]] = []
        self.told: set[tuple[int, str]] = set()
        self._fence_at = fence_at
        self.has_sent = asyncio.Event()
        self.tools_noted = 0
        self.rounds: bytes | None = None
        self.continuation: bytes | None = None
        self.pictures: dict[str, bytes] = {}
        self.refuses_pictures = False
        self.fences_tools = False

    async def send(self, segment: Segment) -> bool:
        if self._fence_at is not None and segment.seq >= self._fence_at:
            raise Fenced
        self.segments.append(segment)
        self.has_sent.set()
        return True

    async def preview(self, text: str) -> None:
        self.previews.append(text)

    async def next_attempt(self) -> AttemptToken:
        self.token = AttemptToken(
            turn_id=self.token.turn_id, attempt=self.token.attempt + 1, claim=self.token.claim
        )
        self.segments.clear()
        return self.token

    async def note_tool(self) -> None:
        if self.fences_tools:
            raise Fenced
        self.tools_noted += 1

    async def keep_rounds(self, kept: bytes) -> None:
        self.rounds = kept

    async def kept_rounds(self) -> bytes | None:
        return self.rounds

    async def keep_picture(self, picture_id: str, data: bytes) -> bool:
        if self.refuses_pictures:
            return False
        self.pictures[picture_id] = data
        return True

    async def keep_continuation(self, payload: bytes) -> None:
        self.continuation = payload

    async def finish(self, event: TurnDone | TurnFailed, outcome: TurnOutcome) -> None:
        self.ends.append((event, outcome))

    async def keep_recording(self, payload: bytes) -> None:
        self.recordings.append(payload)

    async def keep_thoughts(self, text: str, keep_s: int) -> bool:
        self.thoughts.append((text, keep_s))
        return True

    async def may_tell(self, channel_id: int, word: str) -> bool:
        is_new = (channel_id, word) not in self.told
        self.told.add((channel_id, word))
        return is_new

    async def keep_details(self, report_id: str, details: FaultDetails) -> None:
        self.details[report_id] = details

    @property
    def texts(self) -> list[str]:
        return [segment.text for segment in self.segments]

    @property
    def unmarked(self) -> list[Segment]:
        """The segments as the rooms made them: the mark of the last one is the driver's."""
        return [msgspec.structs.replace(segment, is_last=False) for segment in self.segments]


class KeepingReporter:
    """A reporter that keeps its reports."""

    def __init__(self) -> None:
        self.reports: list[ErrorReport] = []

    async def report(self, report: ErrorReport, secrets: Iterable[Secret | str] = ()) -> None:
        self.reports.append(report)


class PlayedPools:
    """Pools of keys in memory, the same for every provider: untried keys in order."""

    def __init__(self, place: Endpoint, *keys: str) -> None:
        self.place = place
        self.keys = keys
        self.rests: list[tuple[str, str, float]] = []
        self.is_known = True

    async def endpoint(
        self, provider: str, tried: frozenset[str], request: TurnRequest
    ) -> KeyedEndpoint:
        if request.credential is not None:
            return KeyedEndpoint(endpoint=self.place, refusal="the credential was revoked")
        if not self.is_known:
            raise ConfigError(f"where does {provider} listen?")
        if not self.keys:
            return KeyedEndpoint(endpoint=self.place)
        resting = {key for name, key, _ in self.rests if name == provider}
        left = [key for key in self.keys if key not in tried | resting] or list(self.keys)
        keyed = msgspec.structs.replace(self.place, key=Secret(left[0]))
        others = len([key for key in left[1:] if key not in tried | resting])
        return KeyedEndpoint(endpoint=keyed, key_id=left[0], others=others)

    async def rest(self, provider: str, chosen: str, rest_s: float) -> None:
        self.rests.append((provider, chosen, rest_s))


class OpenRoads:
    """Traffic that lets everything through but what a test forbids, and remembers."""

    def __init__(self) -> None:
        self.shut: set[str] = set()
        self.cause: Cause | None = None
        self.has_retries = True
        self.asked: list[tuple[str, bool]] = []
        self.notes: list[tuple[str, str | None]] = []

    async def ask(self, target: Target, *, again: bool) -> Signal:
        self.asked.append((target.model, again))
        if target.model in self.shut:
            return Signal(word=Traffic.SHUT, cause=self.cause)
        return Signal(word=Traffic.SPENT) if again and not self.has_retries else GO

    async def heard(self, target: Target, failure: str | None) -> None:
        self.notes.append((target.model, failure))


def runner(
    provider: ProviderPort,
    reporter: KeepingReporter,
    *,
    limits: TimeLimits = GENEROUS,
    endpoint: Endpoint | None = None,
    keys: KeysPort | None = None,
    tools: ToolsPort = NO_TOOLS,
    tool_limits: ToolLimits = ToolLimits(),  # noqa: B008 - frozen
    records_always: bool = False,
    may_supersede: bool = False,
) -> TurnRunner:
    """A runner over played ports; every provider listens at the same place."""
    ids = (f"report-{number}" for number in itertools.count(1))
    place = endpoint or Endpoint(base_url="http://model.invalid/v1", key=Secret("sk-test-key-1"))
    return TurnRunner(
        accounts=FreeOfCharge(),
        context=Forgetful(),
        provider=provider,
        reporter=reporter,
        keys=keys or PlayedPools(place),
        traffic=OpenRoads(),
        tools=tools,
        tool_limits=tool_limits,
        limits=limits,
        clock=SystemClock(),
        say=lambda key, locale: f"{key}:{locale}",
        worker_id="worker-1",
        new_report_id=lambda: next(ids),
        jitter=lambda: 0.0,
        may_supersede=may_supersede,
        records_always=records_always,
    )
