"""The loop around the rooms: request, stream, and what follows a failure.

Comes in: a turn, its outbox, and the event of a user's stop. Goes out: segments, one report for
each failed attempt, one terminal event, and the turn's outcome. It waits through ports only.

    attempt ─► Completed ─► TurnDone
            ─► Stopped   ─► TurnDone (cancelled)
            ─► Failed    ─► report ─► TurnFailed

Thin yet: one attempt a claim, no tools. A model that calls one all the same ends the turn as
`internal_error`, and says so in the report.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec

from shared.causes import Cause, notice_of
from shared.errors import ConfigError, EndpointError
from shared.failures import ErrorReport, ProviderError, ProviderFault
from shared.logs import fields
from shared.segments import Segment, TurnDone, TurnFailed
from shared.turns import StopReason, TurnOutcome, TurnRequest, TurnState
from worker.failures.classify import classify, error_of
from worker.providers.building import build_request
from worker.providers.quirks import is_custom, resolve
from worker.providers.requests import Endpoint, HttpRequest, model_request
from worker.turn.attempt import Attempt, AttemptResult, Completed, Failed, Stopped
from worker.turn.ports import (
    Clock,
    OutboxPort,
    ProviderPort,
    ReporterPort,
    ResponsePort,
    TimeLimits,
)
from worker.turn.reports import report_of_attempt

EMPTY_REPLY = "empty_reply"
"""A note of `TurnDone`: the model said nothing visible; the channel is told, never silent."""

log = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns, any number at once; a run keeps its state in its own `_Run`.

    Args:
        provider: the way to providers.
        reporter: where reports go.
        endpoint_of: address and key of a provider; raises `ConfigError` if it has no address.
        limits: how long to wait for what.
        clock: the time.
        say: a public text by key and locale.
        worker_id: who reports.
        new_report_id: ids of reports.
        records_always: keep the recording of every attempt, not only of failed ones.
    """

    def __init__(
        self,
        *,
        provider: ProviderPort,
        reporter: ReporterPort,
        endpoint_of: Callable[[str], Endpoint],
        limits: TimeLimits,
        clock: Clock,
        say: Callable[[str, str], str],
        worker_id: str,
        new_report_id: Callable[[], str],
        records_always: bool = False,
    ) -> None:
        self.provider = provider
        self.reporter = reporter
        self.endpoint_of = endpoint_of
        self.limits = limits
        self.clock = clock
        self.say = say
        self.worker_id = worker_id
        self.new_report_id = new_report_id
        self.records_always = records_always

    async def run(
        self, request: TurnRequest, outbox: OutboxPort, stopped: asyncio.Event
    ) -> TurnOutcome:
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
        return await _Run(self, request, outbox, stopped).finish()


class _Run:
    """One turn's state."""

    def __init__(
        self, runner: TurnRunner, request: TurnRequest, outbox: OutboxPort, stopped: asyncio.Event
    ) -> None:
        self._runner = runner
        self._request = request
        self._outbox = outbox
        self._stopped = stopped
        self._clock = runner.clock
        self._started_s = runner.clock.monotonic_s()

    async def finish(self) -> TurnOutcome:
        """Runs the attempt and ends the turn."""
        attempt = self._begin()
        result = await self._try(attempt)
        await self._keep_recording(attempt, result)
        match result:
            case Completed():
                return await self._done(attempt, TurnState.DONE)
            case Stopped():
                return await self._done(attempt, TurnState.CANCELLED)
            case Failed():
                return await self._failed(attempt, result)

    def _begin(self) -> Attempt:
        target = self._request.target
        try:
            endpoint = self._runner.endpoint_of(target.provider)
        except ConfigError as exc:
            log.error("endpoint.unknown", extra=fields(reason=str(exc)))
            endpoint = None
        return Attempt(
            request=self._request,
            target=target,
            endpoint=endpoint,
            number=self._outbox.token.attempt,
            limits=self._runner.limits,
            started_s=self._clock.monotonic_s(),
            turn_started_s=self._started_s,
        )

    async def _try(self, attempt: Attempt) -> AttemptResult:
        """One request and its stream, every failure as a value."""
        if attempt.endpoint is None:
            why = f"no address is configured for the provider {attempt.target.provider}"
            return Failed(error=error_of(Cause.ENDPOINT_NOT_FOUND, message=why))
        outgoing = build_request(model_request(self._request, attempt.target), attempt.endpoint)
        stop = asyncio.create_task(self._stopped.wait(), name="stop")
        stream = asyncio.create_task(self._stream(attempt, outgoing, stop), name="stream")
        try:
            return await stream
        except EndpointError as exc:
            return await self._broken(attempt, exc)
        except TimeoutError:
            return Failed(error=error_of(Cause.NETWORK_TIMEOUT, message="no answer in time"))
        finally:
            await _end(stream, stop)

    async def _stream(
        self, attempt: Attempt, outgoing: HttpRequest, stop: "asyncio.Task[bool]"
    ) -> AttemptResult:
        async with contextlib.AsyncExitStack() as stack:
            opening = asyncio.create_task(
                stack.enter_async_context(self._runner.provider.open(outgoing)), name="open"
            )
            try:
                await asyncio.wait(
                    {opening, stop},
                    timeout=self._runner.limits.first_byte_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not opening.done():
                    if stop.done():
                        return await self._stop(attempt)
                    raise TimeoutError
                response = opening.result()
            finally:
                await _end(opening)
            if response.status != 200:
                return await self._refused(attempt, response)
            return await self._read(attempt, response, stop)

    async def _read(
        self, attempt: Attempt, response: ResponsePort, stop: "asyncio.Task[bool]"
    ) -> AttemptResult:
        async with contextlib.aclosing(_generator(response)) as chunks:
            read = _next(chunks)
            try:
                while True:
                    await asyncio.wait(
                        {read, stop},
                        timeout=attempt.patience_s(self._clock.monotonic_s()),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    now_s = self._clock.monotonic_s()
                    if stop.done():
                        return await self._stop(attempt)
                    if read.done():
                        data = read.result()
                        if data is None:
                            break
                        await self._send(attempt, attempt.feed(data, now_s))
                        if attempt.pipeline.end is not None:
                            break
                        read = _next(chunks)
                    elif (cause := attempt.overdue(now_s)) is not None:
                        await self._send(attempt, attempt.pipeline.stop())
                        return Failed(error=error_of(cause, message="the stream fell silent"))
                    await self._send(attempt, attempt.tick(now_s))
            finally:
                await _end(read)
        await self._send(attempt, attempt.pipeline.flush())
        return attempt.result()

    async def _send(self, attempt: Attempt, segments: list[Segment]) -> None:
        for segment in segments:
            await self._outbox.send(segment)
            attempt.note_sent(self._clock.monotonic_s())

    async def _stop(self, attempt: Attempt) -> Stopped:
        await self._send(attempt, attempt.pipeline.stop())
        return Stopped()

    async def _broken(self, attempt: Attempt, exc: EndpointError) -> AttemptResult:
        """The connection broke: the answer may be whole all the same, the rooms know."""
        if attempt.first_byte_s is not None:
            await self._send(attempt, attempt.pipeline.flush())
            result = attempt.result()
            if isinstance(result, Completed):
                return result
        return Failed(error=classify(self._fault(attempt, exception=exc.exception)))

    async def _refused(self, attempt: Attempt, response: ResponsePort) -> Failed:
        body = await response.error_body()
        fault = self._fault(
            attempt,
            status=response.status,
            headers=response.headers,
            body=body.decode("utf-8", "replace"),
        )
        return Failed(error=classify(fault, attempt.secrets))

    def _fault(
        self,
        attempt: Attempt,
        *,
        status: int = 0,
        headers: tuple[tuple[str, str], ...] = (),
        body: str = "",
        exception: str | None = None,
    ) -> ProviderFault:
        return ProviderFault(
            provider=attempt.target.provider,
            model=attempt.target.model,
            status=status,
            headers=headers,
            body=body,
            exception=exception,
            custom_endpoint=is_custom(resolve(attempt.target.provider)),
            now_s=self._clock.epoch_ms() / 1000,
        )

    async def _done(self, attempt: Attempt, state: TurnState) -> TurnOutcome:
        if attempt.pipeline.calls:
            error = error_of(Cause.INTERNAL_ERROR, message="the model called a tool; none are run")
            return await self._failed(attempt, Failed(error=error))
        outcome = self._outcome(attempt, state)
        is_empty = attempt.sent == 0 and state is TurnState.DONE
        event = TurnDone(
            count=attempt.sent,
            stop_reason=attempt.stop_reason,
            state=state,
            usage=outcome.usage,
            notes=(EMPTY_REPLY,) if is_empty else (),
        )
        await self._outbox.finish(event, outcome)
        return outcome

    async def _failed(self, attempt: Attempt, result: Failed) -> TurnOutcome:
        report = self._report(attempt, result.error)
        await self._runner.reporter.report(report, attempt.secrets)
        outcome = msgspec.structs.replace(
            self._outcome(attempt, TurnState.FAILED), cause=result.error.cause
        )
        await self._outbox.finish(self._failed_event(attempt, result.error, report.id), outcome)
        return outcome

    def _failed_event(self, attempt: Attempt, error: ProviderError, report_id: str) -> TurnFailed:
        notice = notice_of(error.cause, self._request.credential_source)
        locale = self._request.route.locale
        return TurnFailed(
            cause=error.cause,
            category=error.category,
            count=attempt.sent,
            headline=self._runner.say(notice.headline, locale),
            tips=tuple(self._runner.say(tip, locale) for tip in notice.tips),
            fault=notice.footer,
            report_id=report_id,
            retryable=error.retryable,
        )

    def _report(self, attempt: Attempt, error: ProviderError) -> ErrorReport:
        return report_of_attempt(
            request=self._request,
            attempt=attempt,
            number=self._outbox.token.attempt,
            error=error,
            report_id=self._runner.new_report_id(),
            now_ms=self._clock.epoch_ms(),
            elapsed_ms=_ms(self._clock.monotonic_s() - attempt.started_s),
            worker_id=self._runner.worker_id,
        )

    def _outcome(self, attempt: Attempt, state: TurnState) -> TurnOutcome:
        end = attempt.pipeline.end
        return TurnOutcome(
            state=state,
            segments=attempt.sent,
            stop_reason=attempt.stop_reason if end is not None else StopReason.UNKNOWN,
            usage=attempt.usage,
            serving_provider=end.serving_provider if end is not None else None,
            details=tuple(attempt.pipeline.buffer.details),
            first_byte_ms=self._since_start(attempt.first_byte_s),
            first_segment_ms=self._since_start(attempt.first_segment_s),
            elapsed_ms=_ms(self._clock.monotonic_s() - self._started_s),
        )

    def _since_start(self, moment_s: float | None) -> int | None:
        return None if moment_s is None else _ms(moment_s - self._started_s)

    async def _keep_recording(self, attempt: Attempt, result: AttemptResult) -> None:
        if isinstance(result, Failed) or self._runner.records_always:
            await self._outbox.keep_recording(attempt.recording.dump())
            log.debug("attempt.recorded", extra=fields(attempt=self._outbox.token.attempt))


async def _generator(response: ResponsePort) -> AsyncGenerator[bytes, None]:
    async for data in response.chunks():
        yield data


async def _or_none(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _next(chunks: AsyncIterator[bytes]) -> "asyncio.Task[bytes | None]":
    return asyncio.create_task(_or_none(chunks), name="read")


async def _end(*tasks: "asyncio.Task[object]") -> None:
    """Cancels what still runs, and waits until it has let go of its stream."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at: whoever awaits the task itself gets it raised


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
