"""What delivery needs of the world, as protocols.

Comes in: nothing. Goes out: the ports that `gateway.edges` implements and tests fake. Every call
that reaches Redis may raise `StoreUnavailable`; delivery then asks again, because all of them may
be repeated.
"""

from typing import Protocol

from gateway.asks import KeptTable
from gateway.steps import Armed, JournalRecord, Patch, Written
from shared.failures import ErrorReport
from shared.segments import Envelope


class Clock(Protocol):
    """Time, so that tests do not wait for it."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits; cancellable."""
        ...


class EnvelopeSource(Protocol):
    """The out stream of one partition, read by its one consumer."""

    def rewind(self) -> None:
        """Begins again with what was read and never acknowledged, by whomever."""
        ...

    async def read(self) -> list[Envelope]:
        """The next envelopes, unacknowledged ones first; waits a moment for new ones.

        After a failure some may come twice, in order.
        """
        ...

    async def ack(self, entry_id: str) -> None:
        """Acknowledges an envelope and removes it from the stream."""
        ...

    def acked(self, entry_id: str) -> None:
        """Notes that the journal acknowledged an envelope with its receipt."""
        ...


class Leadership(Protocol):
    """The lease that makes this gateway the one that delivers a partition."""

    async def take(self) -> bool:
        """Takes the lease, or keeps it; False when another gateway has it."""
        ...

    async def keep(self) -> bool:
        """Renews the lease; False when another gateway has it, or had it meanwhile.

        What is known of turns is stale then.
        """
        ...

    def is_sure(self) -> bool:
        """Whether nobody else can have the lease yet, by this process's own clock."""
        ...

    async def release(self) -> None:
        """Gives the lease up, if it is held."""
        ...


class Journal(Protocol):
    """The write-ahead record of what was sent."""

    async def read(self, turn_id: str) -> JournalRecord | None:
        """The record of a turn, None if it was never delivered to. Raises `TornJournal`."""
        ...

    async def write(
        self,
        turn_id: str,
        patch: Patch,
        armed: Armed | None = None,
        *,
        shown: tuple[str, ...] = (),
    ) -> Written:
        """Writes a patch in one step, with the buttons that the reply ends with.

        In the same step it acknowledges the envelopes `shown`, which the patch says are shown.
        """
        ...

    async def armed(self) -> list[Armed]:
        """The ended replies of the partition whose button to stop them is not taken away yet."""
        ...

    async def disarmed(self, turn_id: str) -> None:
        """Nothing is left to take away of a reply."""
        ...


class Reporter(Protocol):
    """Where failures of delivery go."""

    async def report(self, report: ErrorReport) -> None:
        """Takes a report; never raises."""
        ...


class Fleet(Protocol):
    """What delivery tells the queue."""

    async def cancel(self, turn_id: str) -> None:
        """Stops a turn whose answer nobody can see."""
        ...

    async def block_channel(self, channel_id: int) -> None:
        """Marks a channel as refusing, so that no prompt of it is admitted for a while."""
        ...

    async def refuse_files(self, channel_id: int) -> None:
        """Remembers that a channel takes no files."""
        ...

    async def takes_files(self, channel_id: int) -> bool:
        """Whether files may be tried in a channel."""
        ...

    async def picture(self, picture_id: str) -> bytes | None:
        """A picture that a worker has kept; None when it is gone."""
        ...

    async def keep_source(self, name: str, table: KeptTable) -> None:
        """Keeps the source of a drawn table for whoever asks to see it."""
        ...


class TablePainter(Protocol):
    """Who draws tables."""

    async def paint(self, source: str) -> bytes | None:
        """A Markdown table as a PNG; None when it is to be shown as text."""
        ...
