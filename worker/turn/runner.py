"""The loop around the rooms: request, stream, tools, and what follows a failure.

Comes in: a turn, its outbox, and the event of a user's stop. Goes out: segments, one report for
each failed attempt, one terminal event, and the turn's outcome. It waits through ports only.

    round ─► Completed ─► tools called ─► answers ─► next round
                       ─► paused       ─► next round
                       ─► TurnDone
          ─► Stopped   ─► TurnDone (cancelled)
          ─► Failed    ─► report ─► decide ─► next attempt | TurnFailed

The rounds of an attempt share its segments and its number. A failed round is asked again by the
next attempt; the rounds before it stand (`plan`).
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from shared.causes import Cause
from shared.errors import ConfigError
from shared.failures import ErrorReport, ProviderError
from shared.logs import fields
from shared.messages import Message
from shared.segments import TurnDone
from shared.turns import StopReason, TurnOutcome, TurnRequest, TurnState
from worker.failures.classify import error_of
from worker.failures.decide import Action, Decision
from worker.failures.reports import details_of
from worker.turn.attempt import Attempt, AttemptResult, Completed, Failed, Stopped
from worker.turn.continuing import keep_if_cut_off
from worker.turn.costs import Costs
from worker.turn.failed import AttemptReports, failed_event
from worker.turn.gate import Gate
from worker.turn.outcomes import TurnResult, outcome_of
from worker.turn.plan import Plan
from worker.turn.ports import (
    AccountsPort,
    Clock,
    ContextPort,
    KeysPort,
    OutboxPort,
    ProviderPort,
    ReporterPort,
    TimeLimits,
    ToolsPort,
    TrafficPort,
)
from worker.turn.remarks import remarks
from worker.turn.rounds import dump, load
from worker.turn.streaming import AttemptStream
from worker.turn.tool_rounds import ToolLimits, ToolRounds, offered_to
from worker.turn.words import words_of

MAX_PAUSES = 3
"""Of a turn. Anthropic pauses a long server-side search after about ten steps of it; a reply that
needs more than forty is not coming."""
EMPTY_REPLY = "empty_reply"
"""A note of `TurnDone`: the model said nothing visible, twice; the channel is told."""

DEFAULT_TOOL_LIMITS = ToolLimits()

log = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns, any number at once; a run keeps its state in its own `_Run`.

    Args:
        provider: the way to providers.
        reporter: where reports go.
        keys: addresses of providers and their keys.
        traffic: the fleet's breakers and retry budgets.
        tools: the installed tools.
        accounts: prices and budgets.
        context: what a turn reads of its channel.
        limits: how long to wait for what.
        clock: the time.
        say: a public text by key and locale.
        worker_id: who reports.
        new_report_id: ids of reports.
        jitter: a random number from 0 to 1, so that a fleet does not retry in step.
        may_supersede: whether a new attempt may replace what an old one showed.
        records_always: keep the recording of every attempt, not only of failed ones.
        tool_limits: what a turn may spend on tools.
    """

    def __init__(
        self,
        *,
        provider: ProviderPort,
        reporter: ReporterPort,
        keys: KeysPort,
        traffic: TrafficPort,
        tools: ToolsPort,
        accounts: AccountsPort,
        context: ContextPort,
        limits: TimeLimits,
        clock: Clock,
        say: Callable[[str, str], str],
        worker_id: str,
        new_report_id: Callable[[], str],
        jitter: Callable[[], float],
        may_supersede: bool = True,
        records_always: bool = False,
        tool_limits: ToolLimits = DEFAULT_TOOL_LIMITS,
    ) -> None:
        self.provider = provider
        self.reporter = reporter
        self.keys = keys
        self.traffic = traffic
        self.tools = tools
        self.accounts = accounts
        self.context = context
        self.tool_limits = tool_limits
        self.limits = limits
        self.clock = clock
        self.say = say
        self.worker_id = worker_id
        self.new_report_id = new_report_id
        self.jitter = jitter
        self.may_supersede = may_supersede
        self.records_always = records_always

    async def run(
        self, request: TurnRequest, outbox: OutboxPort, stopped: asyncio.Event
    ) -> TurnResult:
        """Answers one turn.

        Cancelled, it closes the provider's stream and writes nothing more; what was sent stays for
        the next attempt to supersede.

        Args:
            request: the turn.
            outbox: its way back.
            stopped: set when a user stops the turn.

        Returns:
            How it ended; the terminal event is out.

        Raises:
            Fenced: another worker has the turn.
        """
        read = await self.context.prepared(request)
        offered = offered_to(request, self.tools)
        turn = _Run(self, msgspec.structs.replace(read, tools=offered), outbox, stopped)
        turn.asked = request
        result = await turn.finish()
        await self.context.noted(request, result.outcome)
        return result


class _Run:
    """One turn's state."""

    def __init__(
        self, runner: TurnRunner, request: TurnRequest, outbox: OutboxPort, stopped: asyncio.Event
    ) -> None:
        self._runner = runner
        self.asked = request  # as the front made it, where it reads more than that
        self._request = request
        self._outbox = outbox
        self._stopped = stopped
        self._clock = runner.clock
        self._started_s = runner.clock.monotonic_s()
        self._stream = AttemptStream(
            provider=runner.provider, outbox=outbox, clock=runner.clock, stopped=stopped
        )
        self._plan = Plan(request, may_supersede=runner.may_supersede)
        self._gate = Gate(runner.traffic)
        self._reports = AttemptReports(
            request,
            reporter=runner.reporter,
            clock=runner.clock,
            worker_id=runner.worker_id,
            new_report_id=runner.new_report_id,
        )
        self._tools = ToolRounds(
            request,
            tools=runner.tools,
            outbox=outbox,
            clock=runner.clock,
            stopped=stopped,
            deadline_s=self._started_s + runner.limits.turn_deadline_s,
            limits=runner.tool_limits,
        )
        self._pauses = 0
        self._was_empty = False
        self._shut: Failed | None = None
        self._costs = Costs(request, runner.accounts, outbox)

    async def finish(self) -> TurnResult:
        """Tries until the turn has its end.

        Raises:
            WireError: an earlier claim left rounds that cannot be read.
        """
        kept = await self._outbox.kept_rounds()
        if kept is not None:
            self._plan.add_rounds(*load(kept))
            self._tools.resume(sum(one.trims for one in self._plan.rounds))
        self._shut = await self._gate.first(self._plan.target)
        while True:
            attempt = await self._begin()
            result = await self._result_of(attempt)
            await self._costs.enter(attempt)
            await self._keep_recording(attempt, result)
            match result:
                case Completed():
                    return await self._done(attempt, TurnState.DONE)
                case Stopped():
                    return await self._done(attempt, TurnState.CANCELLED)
                case Failed(error=error):
                    ended = await self._after(attempt, error)
                    if ended is not None:
                        return ended

    async def _result_of(self, attempt: Attempt) -> AttemptResult:
        """Asks, unless the breaker of the first model is open; the fleet hears how it went."""
        if self._shut is not None:
            shut, self._shut = self._shut, None
            return shut
        result = self._unless_empty(attempt, await self._rounds_of(attempt))
        await self._gate.tell(attempt.target, result)
        return result

    async def _rounds_of(self, attempt: Attempt) -> AttemptResult:
        """Asks and asks again, until the model says something that needs no answer."""
        while True:
            refused = await self._costs.refusal(attempt)
            question = self._runner.context.fitted(self._plan.question)
            result = refused or await self._stream.of(attempt, question)
            if not (isinstance(result, Completed) and attempt.pipeline.goes_on):
                return result
            ended = await self._answer(attempt, result)
            if ended is not None:
                return ended

    def _unless_empty(self, attempt: Attempt, result: AttemptResult) -> AttemptResult:
        """Makes a failure of the first reply without any visible text, so that it is asked again.

        One that reached its length has spent it on reasoning, and would do so again.
        """
        is_empty = isinstance(result, Completed) and attempt.sent == 0
        is_at_length = attempt.pipeline.stop_reason is StopReason.LENGTH
        if self._was_empty or not is_empty or is_at_length:
            return result
        self._was_empty = True
        return Failed(error=error_of(Cause.EMPTY_STREAM, message="the model said nothing visible"))

    async def _answer(self, attempt: Attempt, result: Completed) -> AttemptResult | None:
        """Makes the next question of a round's answer; None unless the attempt ends here."""
        pipeline = attempt.pipeline
        results: list[Message] = []
        if pipeline.calls:
            if self._tools.is_over:
                why = "the model calls tools after its budget for them was spent"
                return Failed(error=error_of(Cause.LIMIT_EXCEEDED, message=why))
            answers = await self._tools.answer(pipeline.calls)
            if answers is None:
                return Stopped()
            results = answers
        else:
            self._pauses += 1
            if self._pauses > MAX_PAUSES:
                return result
        self._plan.add_rounds(attempt.completed(results))
        kept = dump(self._plan.rounds)
        if kept is not None:
            await self._outbox.keep_rounds(kept)
        attempt.next_round()
        return None

    async def _after(self, attempt: Attempt, error: ProviderError) -> TurnResult | None:
        """Reports a failure and gives up or prepares the next attempt (None)."""
        asked = self._plan.question
        decision = await self._decision(attempt, error)
        if decision.key_cooldown_s and attempt.key_id is not None:
            name = attempt.target.provider
            await self._runner.keys.rest(name, attempt.key_id, decision.key_cooldown_s)
        gives_up = decision.action is Action.GIVE_UP or self._is_too_late(decision.delay_s)
        number = self._outbox.token.attempt
        report = await self._reports.report(attempt, error, asked, number=number, shown=gives_up)
        if gives_up:
            return await self._give_up(attempt, error, report)
        log.info("attempt.again", extra=fields(action=decision.action, cause=error.cause))
        if await self._stops_within(decision.delay_s):
            return await self._done(attempt, TurnState.CANCELLED)
        await self._outbox.next_attempt()
        return None

    async def _decision(self, attempt: Attempt, error: ProviderError) -> Decision:
        """What follows, as far as the fleet lets it: a shut model is passed over.

        Asked before anything that was shown is superseded, so that it stays where nothing follows.
        """
        while True:
            decision = self._plan.after(
                error,
                emitted=attempt.sent > 0,
                jitter=self._runner.jitter(),
                key_id=attempt.key_id,
                other_keys=attempt.other_keys,
            )
            is_retry = decision.action is Action.RETRY
            if decision.action is Action.GIVE_UP or await self._gate.may_go_on(
                self._plan.target, again=is_retry
            ):
                return decision
            log.info("attempt.held_back", extra=fields(action=decision.action, cause=error.cause))
            error = msgspec.structs.replace(error, retryable=False)

    def _is_too_late(self, delay_s: float) -> bool:
        deadline_s = self._started_s + self._runner.limits.turn_deadline_s
        return self._clock.monotonic_s() + delay_s >= deadline_s

    async def _stops_within(self, delay_s: float) -> bool:
        """Waits, unless a user stops the turn meanwhile."""
        try:
            async with asyncio.timeout(delay_s):
                await self._stopped.wait()
        except TimeoutError:
            return False
        return True

    async def _begin(self) -> Attempt:
        attempt = await self._next_attempt()
        for done in self._plan.rounds:
            await self._stream.carry(attempt, done)
        return attempt

    async def _next_attempt(self) -> Attempt:
        target = self._plan.target
        try:
            keyed = await self._runner.keys.endpoint(
                target.provider, self._plan.tried, self._request
            )
        except ConfigError as exc:
            log.error("endpoint.unknown", extra=fields(reason=str(exc)))
            keyed = None
        return Attempt(
            request=self._request,
            target=target,
            keyed=keyed,
            number=self._outbox.token.attempt,
            limits=self._runner.limits,
            started_s=self._clock.monotonic_s(),
            turn_started_s=self._started_s,
            words=words_of(self._runner.say, self._request.route.locale),
        )

    async def _done(self, attempt: Attempt, state: TurnState) -> TurnResult:
        outcome = self._outcome(attempt, state)
        is_empty = attempt.sent == 0 and state is TurnState.DONE
        own = (*((EMPTY_REPLY,) if is_empty else ()), *self._costs.notes)
        event = TurnDone(
            count=attempt.sent,
            stop_reason=attempt.pipeline.stop_reason,
            state=state,
            usage=outcome.usage,
            notes=(*own, *await remarks(self._request, attempt, self._outbox)),
        )
        if state is TurnState.DONE:
            await keep_if_cut_off(self.asked, self._plan.rounds, attempt, self._outbox)
        await self._outbox.finish(event, outcome)
        return TurnResult(outcome, attempt)

    async def _give_up(
        self, attempt: Attempt, error: ProviderError, report: ErrorReport
    ) -> TurnResult:
        ended = self._outcome(attempt, TurnState.FAILED)
        outcome = msgspec.structs.replace(ended, cause=error.cause)
        event = failed_event(
            self._request, error, self._runner.say, count=attempt.sent, report_id=report.id
        )
        await self._outbox.keep_details(report.id, details_of(report))
        await self._outbox.finish(event, outcome)
        return TurnResult(outcome, attempt)

    def _outcome(self, attempt: Attempt, state: TurnState) -> TurnOutcome:
        return outcome_of(
            attempt,
            state,
            started_s=self._started_s,
            now_s=self._clock.monotonic_s(),
            tool_calls=self._tools.calls_run,
            attempts=tuple(self._costs.spent),
        )

    async def _keep_recording(self, attempt: Attempt, result: AttemptResult) -> None:
        if isinstance(result, Failed) or self._runner.records_always:
            await self._outbox.keep_recording(attempt.recording.dump())
            log.debug("attempt.recorded", extra=fields(attempt=self._outbox.token.attempt))
