"""The stream of one attempt: from the question to the last segment, every failure as a value.

Comes in: an attempt and its question. Goes out: segments through the outbox, and how it ended. It
waits through ports only, for bytes; a user's stop and the time interrupt that (`alarm`), so that a
chunk costs no task.
"""

import asyncio
import contextlib
import logging

import msgspec

from shared.causes import Cause
from shared.errors import EndpointError
from shared.failures import ProviderFault
from shared.logs import fields
from shared.segments import Segment, SegmentKind
from worker.chunks.types import DoneChunk
from worker.failures.classify import classify, error_of
from worker.providers.building import build_request
from worker.providers.quirks import is_custom, resolve
from worker.providers.requests import HttpRequest, ModelRequest
from worker.turn.alarm import Alarm
from worker.turn.attempt import Attempt, AttemptResult, Completed, Failed, Stopped
from worker.turn.ports import Clock, OutboxPort, ProviderPort, ResponsePort
from worker.turn.quoted import without_prompts
from worker.turn.rounds import Round

_LATE = {
    Cause.NETWORK_TIMEOUT: "the stream fell silent",
    Cause.REQUEST_TIMEOUT: "the answer did not end in time",
}

log = logging.getLogger(__name__)


class AttemptStream:
    """Streams attempts of one turn.

    Args:
        provider: the way to providers.
        outbox: the turn's way back.
        clock: the time.
        stopped: set when a user stops the turn.
    """

    __slots__ = ("_clock", "_outbox", "_provider", "_stopped")

    def __init__(
        self, *, provider: ProviderPort, outbox: OutboxPort, clock: Clock, stopped: asyncio.Event
    ) -> None:
        self._provider = provider
        self._outbox = outbox
        self._clock = clock
        self._stopped = stopped

    async def carry(self, attempt: Attempt, done: Round) -> None:
        """Shows again what an earlier attempt had completed before its failure.

        Raises:
            Fenced: another worker has the turn.
        """
        await self._send(attempt, attempt.carry(done))

    async def of(self, attempt: Attempt, question: ModelRequest) -> AttemptResult:
        """Asks, and streams the answer.

        Cancelled, it closes the provider's stream; segments already sent stay.

        Raises:
            Fenced: another worker has the turn; the stream is closed.
        """
        return without_prompts(await self._of(attempt, question), question)

    async def _of(self, attempt: Attempt, question: ModelRequest) -> AttemptResult:
        if attempt.endpoint is None:
            why = f"no address is configured for the provider {attempt.target.provider}"
            return Failed(error=error_of(Cause.ENDPOINT_NOT_FOUND, message=why))
        if attempt.refusal is not None:
            return Failed(error=error_of(Cause.INVALID_KEY, message=attempt.refusal))
        outgoing = build_request(question, attempt.endpoint)
        attempt.asked(self._clock.monotonic_s())
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
                stack.enter_async_context(self._provider.open(outgoing)), name="open"
            )
            try:
                await asyncio.wait(
                    {opening, stop},
                    timeout=attempt.first_byte_limit_s(self._clock.monotonic_s()),
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
        alarm = Alarm(attempt, self._clock, response.interrupt)
        stop.add_done_callback(alarm.ring)
        try:
            while True:
                alarm.set()
                data = await response.more()
                now_s = self._clock.monotonic_s()
                if stop.done():
                    return await self._stop(attempt)
                if data is None:
                    break
                if data and (segments := attempt.feed(data, now_s)):
                    await self._send(attempt, segments)
                if attempt.pipeline.end is not None:
                    break
                # Also when something came: one that never ends is no better than a silent one.
                if (cause := attempt.overdue(now_s)) is not None:
                    await self._send(attempt, attempt.pipeline.stop())
                    return Failed(error=error_of(cause, message=_LATE[cause]))
                if segments := attempt.tick(now_s):
                    await self._send(attempt, segments)
                if (preview := attempt.preview(now_s)) is not None and not attempt.is_cut:
                    await self._outbox.preview(preview)
        finally:
            alarm.cancel()
            stop.remove_done_callback(alarm.ring)
        await self._send(attempt, _ended(attempt, attempt.pipeline.flush()))
        _log_diagnostics(attempt)
        # Stopped while nobody took the last segments: what is shown is not the whole answer.
        return Stopped() if attempt.is_cut else attempt.result()

    async def _send(self, attempt: Attempt, segments: list[Segment]) -> None:
        for segment in segments:
            if attempt.is_cut or not await self._outbox.send(await self._kept(attempt, segment)):
                attempt.is_cut = True
                return
            attempt.note_sent(self._clock.monotonic_s())

    async def _kept(self, attempt: Attempt, segment: Segment) -> Segment:
        """The segment, once its picture is kept; with a note in its place where it cannot be."""
        if segment.picture is None:
            return segment
        data = attempt.pipeline.pictures.pop(segment.picture, b"")
        if data and await self._outbox.keep_picture(segment.picture, data):
            return segment
        return msgspec.structs.replace(
            segment, kind=SegmentKind.TEXT, text=segment.fallback[0], fallback=(), picture=None
        )

    async def _stop(self, attempt: Attempt) -> Stopped:
        await self._send(attempt, attempt.pipeline.stop())
        return Stopped()

    async def _broken(self, attempt: Attempt, exc: EndpointError) -> AttemptResult:
        """The connection broke: the answer may be whole all the same, the rooms know."""
        if attempt.has_heard:
            await self._send(attempt, attempt.pipeline.flush())
            if attempt.is_cut:
                return Stopped()
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


def _ended(attempt: Attempt, segments: list[Segment]) -> list[Segment]:
    """The last segments of an answer, marked where nothing follows: a front need not wait to know.

    A failure is no such end: the next attempt says it anew.
    """
    is_whole = isinstance(attempt.pipeline.end, DoneChunk) and not attempt.pipeline.goes_on
    if not segments or not is_whole:
        return segments
    return [*segments[:-1], msgspec.structs.replace(segments[-1], is_last=True)]


def _log_diagnostics(attempt: Attempt) -> None:
    """What the rooms mended in an answer, with the host that sent it, so that it can be told."""
    end = attempt.pipeline.end
    found = (end.metadata or {}).get("diagnostics") if end is not None else None
    if end is not None and found:
        host = end.serving_provider
        log.info("stream.mended", extra=fields(serving_provider=host, diagnostics=found))


async def _end(*tasks: "asyncio.Task[object]") -> None:
    """Cancels what still runs, and waits until it has let go of its stream."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at: whoever awaits the task itself gets it raised
