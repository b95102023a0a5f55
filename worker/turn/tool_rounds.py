"""The tool rounds of a turn: which calls may run, running them, and the answers in order.

Comes in: the calls of a finished stream. Goes out: one answer for each, for the next request. It
waits through ports only, for the tools, a user's stop, and time.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

import msgspec

from shared.errors import ToolError
from shared.logs import fields
from shared.messages import Message, ToolCallBlock
from shared.tools import ToolContext
from shared.turns import ToolSpec, TurnRequest
from worker.chunks.tool_arguments import refusal
from worker.chunks.types import FunctionCall
from worker.providers.rounds import result_message
from worker.turn.ports import Clock, OutboxPort, ToolsPort
from worker.turn.results import (
    NO_BUDGET,
    WRONG_ARGUMENTS,
    failure_text,
    result_text,
    unknown_tool,
)

LETTING_GO_S = 1.0
"""What a cancelled tool gets to close what it holds; after that nobody waits for it."""

log = logging.getLogger(__name__)


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn may spend on tools. A person waits for it, and every round is paid in full."""

    rounds: int = 10
    """Each sends the whole history again; what takes more is better asked in pieces."""
    calls: int = 32
    at_once: int = 8
    """Of the calls of one round; further ones wait for a place."""
    call_s: float = 60.0
    """One slow search or rendering; a page that takes longer does not answer any more."""
    all_s: float = 120.0
    """Of running tools in a turn, where the deadline of 300 s leaves the rest to the model."""
    failures_in_a_row: int = 5
    """A model that was told five times that its calls fail is not going to find the sixth way."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the history for a call."""

    text: str
    is_error: bool = True


def offered_to(request: TurnRequest, tools: ToolsPort) -> tuple[ToolSpec, ...]:
    """The tools that a turn may use: what the deployment allows, as far as its guild wants it."""
    offered = tools.offered(request.route.guild_id)
    wanted = request.tool_names
    return offered if wanted is None else tuple(tool for tool in offered if tool.name in wanted)


class ToolRounds:
    """The tool rounds of one turn, over all its attempts.

    Args:
        request: the turn, with the tools that are offered.
        tools: the installed tools.
        outbox: the turn's way back.
        clock: the time.
        stopped: set when a user stops the turn.
        deadline_s: the driver's clock when the turn must be over.
        limits: what may be spent.

    Attributes:
        calls_run: how many calls ran, failed ones included.
        is_over: the model was told that the budget is spent: further calls end the turn.
    """

    def __init__(
        self,
        request: TurnRequest,
        *,
        tools: ToolsPort,
        outbox: OutboxPort,
        clock: Clock,
        stopped: asyncio.Event,
        deadline_s: float,
        limits: ToolLimits,
    ) -> None:
        self._tools = tools
        self._outbox = outbox
        self._clock = clock
        self._stopped = stopped
        self._deadline_s = deadline_s
        self._limits = limits
        self._names = [spec.name for spec in request.tools]
        self._places = asyncio.Semaphore(limits.at_once)
        route = request.route
        self._context = ToolContext(
            turn_id=request.turn_id,
            channel_id=route.channel_id,
            user_id=route.user_id,
            guild_id=route.guild_id,
            locale=route.locale,
        )
        self._rounds = 0
        self._spent_s = 0.0
        self._failures = 0
        self.calls_run = 0
        self.is_over = False

    def resume(self, rounds: int) -> None:
        """Counts the rounds that an earlier claim of the turn completed."""
        self._rounds = rounds

    async def answer(self, calls: Sequence[FunctionCall]) -> list[Message] | None:
        """Runs what may run, in parallel, and answers every call in order.

        Cancelled, it cancels the tools and waits a moment for them; what they did stays done.

        Returns:
            None when a user stopped the turn meanwhile.

        Raises:
            Fenced: another worker has the turn; no tool was started.
        """
        if self._stopped.is_set():
            return None
        self._rounds += 1
        is_spent = self.is_over = self._is_spent()
        # By place, never by id: a provider may give two calls one id, or none.
        refusals = [NO_BUDGET if is_spent else self._refused(call) for call in calls]
        allowed = [at for at, refusal_ in enumerate(refusals) if refusal_ is None]
        left = max(0, self._limits.calls - self.calls_run)
        runnable = [calls[at] for at in allowed[:left]]
        if any(not self._tools.is_repeatable(call.name) for call in runnable):
            await self._outbox.note_tool()
        ran = await self._run_all(runnable) if runnable else []
        if ran is None:
            return None
        answers = [Answer(text=text or NO_BUDGET) for text in refusals]
        for at, answer in zip(allowed, ran, strict=False):
            answers[at] = answer
        self._count_failures(answers)
        return [_message(call, answer) for call, answer in zip(calls, answers, strict=True)]

    def _is_spent(self) -> bool:
        limits = self._limits
        return (
            self._rounds > limits.rounds
            or self.calls_run >= limits.calls
            or self._failures >= limits.failures_in_a_row
            or self._spent_s >= limits.all_s
        )

    def _refused(self, call: FunctionCall) -> str | None:
        """Why a call must not run; None where it may."""
        if (text := refusal(call)) is not None:
            return text
        if call.name not in self._names:
            return unknown_tool(self._names)
        complaint = self._tools.complaint(call.name, call.args)
        return None if complaint is None else WRONG_ARGUMENTS.format(complaint=complaint)

    async def _run_all(self, calls: list[FunctionCall]) -> list[Answer] | None:
        started_s = self._clock.monotonic_s()
        self.calls_run += len(calls)
        tasks = [asyncio.create_task(self._run(call), name=f"tool {call.name}") for call in calls]
        stop = asyncio.create_task(self._stopped.wait(), name="stop")
        waiting: set[asyncio.Task[Answer] | asyncio.Task[bool]] = {*tasks}
        limit_s = min(self._limits.all_s - self._spent_s, self._deadline_s - started_s)
        try:
            until_s = started_s + limit_s
            while waiting and not stop.done():
                left_s = until_s - self._clock.monotonic_s()
                if left_s <= 0:
                    break
                done, _ = await asyncio.wait(
                    {*waiting, stop}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
                waiting -= done
        finally:
            await _let_go([*tasks, stop])
            self._spent_s += self._clock.monotonic_s() - started_s
        if self._stopped.is_set():
            return None
        return [_answer_of(task) for task in tasks]

    async def _run(self, call: FunctionCall) -> Answer:
        async with self._places:
            started_s = self._clock.monotonic_s()
            answer, outcome = await self._run_one(call)
            elapsed_ms = round((self._clock.monotonic_s() - started_s) * 1000)
            log.debug(
                "tool.ran", extra=fields(tool=call.name, outcome=outcome, elapsed_ms=elapsed_ms)
            )
            return answer

    async def _run_one(self, call: FunctionCall) -> tuple[Answer, str]:
        try:
            async with asyncio.timeout(self._limits.call_s):
                text = await self._tools.run(call.name, call.args, self._context)
        except TimeoutError:
            return _TIMED_OUT, "timeout"
        except ToolError as exc:
            return Answer(text=failure_text(exc)), exc.cause
        return Answer(text=result_text(call.name, text), is_error=False), "ok"

    def _count_failures(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            self._failures = self._failures + 1 if answer.is_error else 0


_TIMED_OUT = Answer(text=failure_text(ToolError("timeout")))


def _message(call: FunctionCall, answer: Answer) -> Message:
    block = ToolCallBlock(id=call.id, name=call.name)
    return result_message(block, answer.text, is_error=answer.is_error)


def _answer_of(task: "asyncio.Task[Answer]") -> Answer:
    """A task that was let go has no answer: its time was over."""
    return task.result() if task.done() and not task.cancelled() else _TIMED_OUT


async def _let_go(tasks: "Sequence[asyncio.Task[Answer] | asyncio.Task[bool]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=LETTING_GO_S)
