"""The running turns of a worker, as it holds them.

Comes in: what claims gave, and what beats and stops said. Goes out: tokens to write with, and
events that end a turn's work. The worker's edges and composition import it.
"""

import asyncio
from collections.abc import Iterator

from shared.edges.queue import Claimed, TurnQueue
from shared.turns import AttemptToken

BEAT_TURNS = 100
"""Turns of one beat: about half a millisecond of the server."""
MAX_EARLY_STOPS = 100
"""Stops kept for turns whose claim is on its way; the beat knows of every stop anyway."""


class Lease:
    """The right to write for a turn, while it lasts.

    A job finds its own in `ctx["leases"][turn_id]`.

    Args:
        claimed: the turn as the queue gave it.
    """

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self.token: AttemptToken = claimed.token
        self.stopped = asyncio.Event()
        """A user stopped the turn: flush, close the provider's stream, finish as cancelled."""
        self.lost = asyncio.Event()
        """Another worker has the turn, or it is over: close the stream and stay silent."""
        self.is_finished = False
        """The terminal event is out."""
        self.is_given_back = False
        """The turn goes back to its lane."""
        self.error: str | None = None
        """Why the job ended without a terminal event of its own."""
        self._job: asyncio.Task[object] | None = None

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self.token.turn_id

    @property
    def request(self) -> bytes:
        """The request in JSON, not decoded: an unreadable one is the job's own failure."""
        return self.claimed.request

    def begin(self) -> None:
        """Says that the current task is the turn's job.

        Raises:
            CancelledError: the lease ended before its job began.
        """
        if self.lost.is_set() or self.is_given_back:
            raise asyncio.CancelledError
        self._job = asyncio.current_task()

    def end(self) -> None:
        """Says that the job is over: there is nothing to cancel any more."""
        self._job = None

    def lose(self) -> None:
        """The turn is somebody else's: its job is cancelled and nothing of it is written."""
        self.lost.set()
        if self._job is not None:
            self._job.cancel()

    def give_back(self) -> None:
        """The job is cancelled, and the turn will return to its lane."""
        self.is_given_back = True
        if self._job is not None:
            self._job.cancel()


class Holdings:
    """Every lease of a worker.

    `by_turn` has the leases whose jobs run. One turn can be held twice for a moment: a worker that
    was stalled may claim again what it has lost without knowing.
    """

    def __init__(self) -> None:
        self.by_turn: dict[str, Lease] = {}
        self._held: set[Lease] = set()
        self._early_stops: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._held))

    def add(self, lease: Lease) -> None:
        """Holds a lease from its claim on."""
        self._held.add(lease)
        if lease.turn_id in self._early_stops:
            self._early_stops.discard(lease.turn_id)
            lease.stopped.set()
        self._idle.clear()

    def remove(self, lease: Lease) -> None:
        """Lets a lease go; it is settled."""
        self._held.discard(lease)
        if not self._held:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns once nothing is held."""
        await self._idle.wait()

    def stop(self, turn_id: str) -> None:
        """Tells the jobs of a turn that a user stopped it, also while its claim is on its way."""
        leases = [lease for lease in self if lease.turn_id == turn_id]
        for lease in leases:
            lease.stopped.set()
        if not leases and len(self._early_stops) < MAX_EARLY_STOPS:
            self._early_stops.add(turn_id)

    async def beat(self, queue: TurnQueue) -> list[Lease]:
        """Renews all leases, loses those that are others', and answers which.

        Raises:
            StoreUnavailable: nobody answers; some may have been renewed.
        """
        living = [lease for lease in self if not (lease.lost.is_set() or lease.is_finished)]
        gone: list[Lease] = []
        for start in range(0, len(living), BEAT_TURNS):
            batch = {
                lease.token.claim + lease.turn_id: lease for lease in living[start:][:BEAT_TURNS]
            }
            lost, cancelled = await queue.beat([lease.token for lease in batch.values()])
            for lease in batch.values():
                if lease.turn_id in cancelled:
                    lease.stopped.set()
                if lease.turn_id in lost and not lease.is_finished:
                    gone.append(lease)
                    lease.lose()
        return gone
