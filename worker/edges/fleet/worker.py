"""The worker process's heart: arq hosts it, the queue is ours.

Comes in: turns of the queue, stops, signals. Goes out: running jobs with leases; every turn that a
job leaves without a terminal event gets one here, or goes back to its lane. The composition root
builds it.

arq gives functions, context, job time limits and hooks. Overridden are `_poll_iteration` (arq walks
every running job on each poll), `finish_job` and `finish_failed_job` (the only places through which
all ends of a job pass, the silent ones included). `tests/unit/worker/edges/fleet/` holds arq to the
names and signatures that this relies on.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, assert_never

from arq.worker import Function, Worker, func
from redis import exceptions as errors
from redis.asyncio import Redis

from shared.causes import Cause
from shared.config import Settings
from shared.edges.orders import Order
from shared.edges.policy import BEAT_S, REAP_S
from shared.edges.queue import Claimed, GivenBack, TurnQueue, new_claim
from shared.errors import Fenced, StoreError, StoreUnavailable
from shared.logs import fields
from worker.edges.fleet.hooks import OnMishap, Reaper, Teller, nothing, safely
from worker.edges.fleet.jobs import arq_client, decode_job, encode_job, reason_of, refuse_pickle
from worker.edges.fleet.lease import Holdings, Lease
from worker.edges.fleet.outage import Outage
from worker.edges.fleet.settle import settle
from worker.edges.fleet.wake import Stop, WakeListener, Woken

POLL_S = 0.5
"""The safety net below the wake tokens: what a token costs that was lost with a dying worker."""
MAX_CLAIM = 8
"""Turns of one claim: a burst is shared between workers, and the script stays under half a ms."""
JOB_MARGIN_S = 30.0
"""arq's time limit beyond the turn's own deadline: it ends jobs that ignore theirs."""
CLEANUP_S = 5.0
"""What cancelled jobs get to close their streams before the worker leaves them to the reaper."""
RETRY_S = 0.2
"""Between tries while Redis is away: soon enough to beat before anyone reaps."""
ENOUGH_TRIES = 1_000_000
"""arq counts hand-backs as tries; crashes are counted by the queue, which means it."""

AWAY = (errors.ConnectionError, errors.TimeoutError, OSError)
"""What redis-py raises inside arq while nobody answers."""

log = logging.getLogger(__name__)

OnBeat = Callable[["FleetWorker"], Awaitable[None]]


class FleetWorker(Worker):
    """Claims turns and runs them as arq jobs, each under a lease.

    Args:
        functions: job functions; `run_turn(ctx, turn_id)` finds `ctx["leases"][turn_id]`.
        queue: the queue of the cell.
        blocking: a client of its own for the wake list.
        settings: slots, drain time, turn deadline.
        worker_id: the name of this worker in leases and records; unique among living ones.
        on_mishap: told of every turn that ended here rather than in its job, and of dead workers.
        on_beat: called after each beat, to report the process.
        ctx: what job functions find beside `leases`.
        beat_s: seconds between beats.
        reap_s: seconds between looks for dead workers.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Awaitable[object]]],
        *,
        queue: TurnQueue,
        blocking: Redis,
        settings: Settings,
        worker_id: str,
        on_mishap: OnMishap = nothing,
        on_beat: OnBeat = nothing,
        ctx: dict[Any, Any] | None = None,
        beat_s: float = BEAT_S,
        reap_s: float = REAP_S,
    ) -> None:
        self.queue = queue
        self.worker_id = worker_id
        self.holdings = Holdings()
        self.loop_lag_s = 0.0
        self.looked_s = time.monotonic()
        """When it last looked for turns and was answered, or had no slot to look for."""
        self.is_cordoned = False
        """An operator lets it take nothing new; what runs goes on."""
        self._drain_s = settings.drain_s
        self._beat_s = beat_s
        self._teller = Teller(on_mishap)
        self._on_beat = on_beat
        self._listener = WakeListener(queue.redis, blocking, queue.keys, worker_id)
        self._claiming = asyncio.Lock()
        self._freed = asyncio.Event()
        self._drain_asked = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waits_for_turns = False
        self.outage = Outage()
        self._reaper = Reaper(queue, self._teller, self.outage, reap_s)
        self._claim_id = new_claim()
        self._claims, self._heard = 1, 0  # this one's number, and the last's that brought turns
        client = arq_client(queue.redis)
        refuse_pickle(client)
        super().__init__(
            [self._guarded(function) for function in functions],
            redis_pool=client,
            handle_signals=False,
            max_jobs=settings.slots,
            job_timeout=settings.turn_deadline_s + JOB_MARGIN_S,
            keep_result=0,
            max_tries=ENOUGH_TRIES,
            poll_delay=POLL_S,
            job_serializer=encode_job,
            job_deserializer=decode_job,
            ctx={**(ctx or {}), "leases": self.holdings.by_turn, "worker_id": worker_id},
            log_results=False,
        )

    # Life

    @property
    def has_free_slot(self) -> bool:
        """Whether this worker would take a turn now."""
        takes = self.allow_pick_jobs and not self.is_cordoned
        return takes and self.job_counter < self.max_jobs

    @property
    def is_draining(self) -> bool:
        """Whether it takes nothing new any more."""
        return self._drain_asked.is_set()

    def run(self) -> None:
        """Runs until a signal, on the loop that was current when the worker was built."""
        self.loop.run_until_complete(self.serve())

    async def serve(self, *, handle_signals: bool = True) -> None:
        """Runs until `drain` or a SIGTERM or SIGINT, then hands back what does not end in time.

        A second signal ends the waiting. Cancelled, it leaves running turns to the reapers of
        other workers.
        """
        numbers = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in numbers:
            self.loop.add_signal_handler(number, self.drain)
        try:
            async with asyncio.TaskGroup() as group:
                works = [self._host, self._wake_loop, self._refill_loop, self._reaper.run]
                takers = [group.create_task(w(), name=w.__name__) for w in works]
                beats = group.create_task(self._beat_loop(), name="beats")
                await self._drain_asked.wait()
                await self._drain()
                for task in (*takers, beats):
                    task.cancel()
        finally:
            for number in numbers:
                self.loop.remove_signal_handler(number)
        log.info("worker.stopped", extra=fields(worker_id=self.worker_id, left=len(self.holdings)))

    def drain(self) -> None:
        """Takes nothing new and ends when the running turns have; called again, at once."""
        if self._drain_asked.is_set():
            self._hurry.set()
        self.allow_pick_jobs = False
        self._drain_asked.set()

    async def close(self) -> None:
        """Nothing to close: clients and pools belong to the composition root."""

    async def _drain(self) -> None:
        log.info("worker.draining", extra=fields(running=len(self.holdings), drain_s=self._drain_s))
        async with self._claiming:  # a claim that is under way holds its turns afterwards
            pass
        await self._wait_idle(self._drain_s)
        for lease in self.holdings:
            lease.give_back()
        self._hurry.clear()
        await self._wait_idle(CLEANUP_S)

    async def _wait_idle(self, limit_s: float) -> None:
        """Waits until no turn runs, somebody hurries, or the time is over."""
        waits = {
            asyncio.create_task(self.holdings.wait_idle(), name="idle"),
            asyncio.create_task(self._hurry.wait(), name="hurry"),
        }
        try:
            await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _host(self) -> None:
        """Runs arq's own main loop, again when Redis was away at its start."""
        while True:
            try:
                await super().main()
            except AWAY as exc:
                self.outage.began(exc)
            await asyncio.sleep(RETRY_S)

    # Taking turns

    async def _poll_iteration(self) -> None:
        async with self._claiming:
            if not self.has_free_slot:
                self.looked_s = time.monotonic()
                return
            n = min(self.max_jobs - self.job_counter, MAX_CLAIM)
            try:
                claimed = await self.queue.claim(
                    self.worker_id, n, self._claim_id, number=self._claims, heard=self._heard
                )
            except StoreError as exc:
                # The next try uses the same id: this one may have got through.
                self.outage.began(exc)
                if not isinstance(exc, StoreUnavailable):
                    self.looked_s = time.monotonic()  # answered, if with a refusal
                return
            self._heard = self._claims if claimed else self._heard
            self._claim_id, self._claims = new_claim(), self._claims + 1
            self.outage.ended()
            self.looked_s = time.monotonic()
            for turn in claimed:
                await self._start(turn)

    async def _start(self, turn: Claimed) -> None:
        await self.sem.acquire()
        self.job_counter += 1
        lease = Lease(turn)
        self.holdings.add(lease)
        turn_id = lease.turn_id
        task = self.loop.create_task(
            self._run_leased(lease, self.tasks.get(turn_id)), name=f"turn {turn_id}"
        )
        self.tasks[turn_id] = task
        task.add_done_callback(lambda done: self._ended(lease, done))

    def _ended(self, lease: Lease, task: "asyncio.Task[None]") -> None:
        self._release_sem_dec_counter_on_complete()
        self.holdings.remove(lease)
        if self.tasks.get(lease.turn_id) is task:
            del self.tasks[lease.turn_id]
        self._freed.set()
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.error("turn.unsettled", extra=fields(turn_id=lease.turn_id, reason=repr(exc)))

    async def _run_leased(self, lease: Lease, before: "asyncio.Task[None] | None") -> None:
        """Runs one claimed turn as an arq job and settles what the job leaves.

        Args:
            lease: the turn.
            before: this worker's own earlier run of the turn, which it has lost meanwhile.
        """
        running = self.holdings.by_turn
        if before is not None:
            if lease.turn_id in running:
                running[lease.turn_id].lose()
            await asyncio.wait({before})
        running[lease.turn_id] = lease
        try:
            await self.run_job(lease.turn_id, lease.claimed.claimed_ms)
        except (*AWAY, errors.OutOfMemoryError, errors.ExecAbortError) as exc:
            # arq could not read the job: no fault of the turn's. It goes round, but slowly.
            self.outage.began(exc)
            await asyncio.sleep(RETRY_S)
            lease.is_given_back = True
        except Exception as exc:  # noqa: BLE001  # nothing that arq raises ends a turn in silence
            lease.error = lease.error or f"{type(exc).__name__}: {exc}"
        finally:
            running.pop(lease.turn_id, None)
        await self._settle(lease)

    def _guarded(self, function: Callable[..., Awaitable[object]]) -> Function:
        """The job function as arq runs it: it never raises but to be cancelled."""

        @wraps(function)
        async def run(ctx: dict[Any, Any], *args: object, **kwargs: object) -> None:
            lease = self.holdings.by_turn[ctx["job_id"]]
            lease.begin()
            try:
                await function(ctx, *args, **kwargs)
            except Fenced:
                lease.lost.set()
            except asyncio.CancelledError:
                if not (lease.lost.is_set() or lease.is_given_back):
                    lease.error = "the job was cancelled, by its time limit or from inside"
                raise
            except Exception as exc:  # whatever it was, the turn gets its end
                lease.error = f"{type(exc).__name__}: {exc}"
                log.exception("turn.job_failed", extra=fields(turn_id=lease.turn_id))
            finally:
                lease.end()

        return func(run, name=function.__name__)

    async def finish_job(self, job_id: str, finish: bool, *_: object, **__: object) -> None:
        """Notes whether arq is done with a job; `_settle` does the writing, uncancelled."""
        lease = self.holdings.by_turn[job_id]
        if finish and lease.error is None:
            lease.error = "the job ended without a terminal event"
        lease.is_given_back = lease.is_given_back or not finish

    async def finish_failed_job(self, job_id: str, result_data: bytes | None) -> None:
        """Notes why arq gave a job up: no job, unreadable, or no such function."""
        self.holdings.by_turn[job_id].error = reason_of(result_data)

    async def _settle(self, lease: Lease) -> None:
        """Gives the turn its end, for as long as that takes."""
        while True:
            try:
                reason = await settle(self.queue, lease)
            except StoreUnavailable as exc:
                self.outage.began(exc)
                await asyncio.sleep(RETRY_S)
                continue
            if reason is not None:
                await self._teller.tell(
                    Cause.INTERNAL_ERROR, lease.turn_id, reason, GivenBack.FAILED
                )
            return

    # Loops

    async def _wake_loop(self) -> None:
        while True:
            self._waits_for_turns = self.has_free_slot
            try:
                woken = await self._listener.wait(for_turns=self._waits_for_turns)
            except StoreError as exc:
                self.outage.began(exc)
                await asyncio.sleep(RETRY_S)
                continue
            match woken:
                case Woken():
                    await self._poll_iteration()
                case Stop():
                    self.holdings.stop(woken.turn_id)
                case Order():
                    self._obey(woken)
                case None:
                    pass

    def _obey(self, order: Order) -> None:
        """Does what an operator wants of this worker."""
        log.warning("worker.ordered", extra=fields(worker_id=self.worker_id, order=order))
        match order:
            case Order.DRAIN:
                if not self.is_draining:  # an order twice must not hurry it
                    self.drain()
            case Order.CORDON:
                self.is_cordoned = True
            case Order.UNCORDON:
                self.is_cordoned = False
            case _:
                assert_never(order)

    async def _refill_loop(self) -> None:
        """After a full worker has a slot again: it did not listen for turns meanwhile."""
        while True:
            await self._freed.wait()
            self._freed.clear()
            if self._waits_for_turns or not self.has_free_slot:
                continue
            await self._poll_iteration()
            try:
                await self._listener.poke()
            except StoreError as exc:
                self.outage.began(exc)

    async def _beat_loop(self) -> None:
        pause_s = self._beat_s
        while True:
            due_s = time.monotonic() + pause_s
            await asyncio.sleep(pause_s)
            self.loop_lag_s = max(0.0, time.monotonic() - due_s)
            try:
                # One beat's time at most: a connection that died in silence is left for another
                # one while the lease still has a third of its life.
                async with asyncio.timeout(self._beat_s):
                    lost = await self.holdings.beat(self.queue)
            except (StoreError, TimeoutError) as exc:
                self.outage.began(exc)
                pause_s = min(self._beat_s, RETRY_S)
                continue
            pause_s = self._beat_s
            self.outage.ended()
            for lease in lost:
                log.warning("turn.lost", extra=fields(turn_id=lease.turn_id))
            await safely(self._on_beat(self), self._beat_s / 2)
