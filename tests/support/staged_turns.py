"""Turns against a doorman: a pool of two keys, a chain of a second model at another vendor.

Comes in: what the first model answers. Goes out: what was asked, in short, and how it ended.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from shared.failures import ErrorReport
from shared.messages import Message, Role
from shared.segments import Segment, TurnDone, TurnFailed
from shared.turns import Sampling, Target, TurnRequest
from tests.support.doorman import Answer, Asked, Doorman
from tests.support.turn_ports import (
    NO_TOOLS,
    FreeOfCharge,
    KeepingReporter,
    PlayedPools,
    RememberingOutbox,
    runner,
)
from tests.support.turns import turn
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.failures.accounts import Stop
from worker.providers.requests import Endpoint, KeyedEndpoint
from worker.turn.ports import TimeLimits, ToolsPort
from worker.turn.tool_rounds import ToolLimits

QUICK = TimeLimits(first_byte_s=1.0, between_chunks_s=1.0, whole_stream_s=2.0, turn_deadline_s=40)
"""Many turns run at once, perhaps on a busy machine: a beat of 0.1 s is far within."""
SECOND = Target(provider="groq", model="second")
TALK = [
    Message(role=role, content=text)
    for role, text in (
        (Role.USER, "One?"),
        (Role.ASSISTANT, "One."),
        (Role.USER, "Two?"),
        (Role.ASSISTANT, "Two."),
        (Role.USER, "Three?"),
    )
]


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn went."""

    asked: list[Asked]
    causes: list[str]
    end: TurnDone | TurnFailed
    segments: list[Segment]
    rests: list[tuple[str, str]]
    reports: list[ErrorReport]

    @property
    def requests(self) -> list[str]:
        """The requests in short: model and key, and what was changed since the first."""
        return [one.name + _changes(one, self.asked[0]) for one in self.asked]

    @property
    def results(self) -> list[str]:
        """What the model was told of its calls by the last request."""
        return [one["content"] for one in self.asked[-1].body["messages"] if one["role"] == "tool"]

    @property
    def text(self) -> str:
        return "\n\n".join(segment.text for segment in self.segments)


def _changes(one: Asked, first: Asked) -> str:
    changes = ""
    if len(_messages(one)) < len(_messages(first)):
        changes += " shorter"
    caps = [
        body.get("max_completion_tokens", body.get("max_tokens")) for body in (one.body, first.body)
    ]
    if one.model == first.model and caps[0] != caps[1]:
        changes += f" at most {caps[0]}"
    if one.model == first.model and "temperature" in first.body and "temperature" not in one.body:
        changes += " without temperature"
    return changes


def _messages(one: Asked) -> list[object]:
    found: list[object] = one.body.get("messages") or one.body["contents"]
    return found


class _Places(PlayedPools):
    """Each provider at its own address."""

    def __init__(self, places: dict[str, str], *keys: str) -> None:
        super().__init__(Endpoint(base_url=""), *keys)
        self._places = places

    async def endpoint(
        self, provider: str, tried: frozenset[str], request: TurnRequest
    ) -> KeyedEndpoint:
        keyed = await super().endpoint(provider, tried, request)
        endpoint = msgspec.structs.replace(keyed.endpoint, base_url=self._places[provider])
        return msgspec.structs.replace(keyed, endpoint=endpoint)


@asynccontextmanager
async def client(man: Doorman) -> AsyncIterator[HttpEdge]:
    """The one client of many turns, as a worker has it."""
    guard = guard_of(f"127.0.0.1:1,127.0.0.1:{man.port}", {})
    http = HttpEdge(guard, error_body_timeout_s=0.5)
    try:
        yield http
    finally:
        await http.close()


async def play(
    man: Doorman,
    http: HttpEdge,
    path: str,
    *answers: Answer,
    provider: str = "rehearsal",
    chain: bool = True,
    place: str | None = None,
    stop: Stop | None = None,
    limits: TimeLimits = QUICK,
    tools: ToolsPort = NO_TOOLS,
    tool_limits: ToolLimits = ToolLimits(),  # noqa: B008 - frozen
) -> Played:
    """Runs a turn whose first model answers this; the second one answers whole.

    Args:
        man: the provider.
        http: the way to it.
        path: the turn's own, under which it is logged.
        answers: of the first model, call after call.
        provider: of the first model.
        chain: whether there is a second model, and a second key.
        place: where the first model is said to listen, instead of the doorman's.
        stop: what accounts say.
        limits: how long is waited for what.
        tools: what is offered.
        tool_limits: what may be spent on them.
    """
    man.answers[path, "first"] = answers
    here = man.url(path)
    keys = ("k1", "k2") if chain else ("k1",)
    pools = _Places({provider: place or here, SECOND.provider: here}, *keys)
    outbox, reporter = RememberingOutbox(), KeepingReporter()
    loop = runner(http, reporter, keys=pools, limits=limits, may_supersede=True)
    loop.tools, loop.tool_limits = tools, tool_limits
    loop.accounts = FreeOfCharge(stop)
    request = turn(
        target=Target(provider=provider, model="first"),
        fallbacks=(SECOND,) if chain else (),
        sampling=Sampling(temperature=0.5, stop=("###",)),
    )
    await loop.run(msgspec.structs.replace(request, messages=TALK), outbox, asyncio.Event())
    ((end, _),) = outbox.ends
    return Played(
        asked=man.asked(path),
        causes=[report.error_type for report in reporter.reports],
        end=end,
        segments=outbox.segments,
        rests=[(name, key) for name, key, _ in pools.rests],
        reports=reporter.reports,
    )
