"""Every Redis key, stream and group of turnfleet, with what it holds and how long it lives.

Comes in: ids. Goes out: key names. This is the one place that spells them; Lua gets the prefix and
joins the same suffixes. Anyone may import it.

A key is `tf:{cell}:<suffix>`. The braces are Redis's hash tag: one cell, one slot.
"""

from typing import Final
from zlib import crc32

TURN_TTL_MS: Final = 2 * 3_600_000
"""A live turn's record: the longest deadline, a queue's wait and an hour of looking at it."""
DONE_TTL_MS: Final = 15 * 60_000
"""A finished turn's record: long enough for an operator who watches, short enough for memory."""
FAILED_TTL_MS: Final = 72 * 3_600_000
"""A failed turn, with all a replay needs: a weekend."""
FAILED_MAX_TURNS: Final = 10_000
"""Failed turns kept at most: about 25 KB each, so 250 MB."""
MARK_TTL_MS: Final = 24 * 3_600_000
"""The mark that refuses a duplicate. Longer than the backfill horizon of 12 h."""
JOURNAL_TTL_MS: Final = 2 * 3_600_000
"""The gateway's journal of a turn: longer than any delivery deadline."""
FAULT_TTL_MS: Final = 72 * 3_600_000
"""The redacted snippet behind "Show full error"; as long as the turn can be replayed."""
DELIVERY_GROUP: Final = "gateway"
RECORDER_GROUP: Final = "recorder"


class Keys:
    """The key names of one cell.

    Args:
        cell: the deployment's name within its Redis.
        partitions: how many out streams there are; the same number for gateway and workers.
    """

    __slots__ = ("partitions", "prefix")

    def __init__(self, cell: str = "main", partitions: int = 4) -> None:
        self.prefix = f"tf:{{{cell}}}:"
        self.partitions = partitions

    def turn(self, turn_id: str) -> str:
        """The turn's record (hash): request, route, state, attempt, claim, seq, owner, cancel."""
        return f"{self.prefix}t:{turn_id}"

    def mark(self, turn_id: str) -> str:
        """The mark that this turn id was admitted once (string)."""
        return f"{self.prefix}m:{turn_id}"

    def recording(self, turn_id: str, attempt: int) -> str:
        """The provider's bytes of a failed attempt (string, compressed). Private."""
        return f"{self.prefix}rec:{turn_id}:{attempt}"

    def journal(self, turn_id: str) -> str:
        """The gateway's write-ahead journal of a turn (hash)."""
        return f"{self.prefix}j:{turn_id}"

    def fault(self, report_id: str) -> str:
        """The redacted snippet of a report with the scope that may open it (string)."""
        return f"{self.prefix}fault:{report_id}"

    def control(self, worker_id: str) -> str:
        """Stops for a worker's running turns (list)."""
        return f"{self.prefix}ctl:{worker_id}"

    def heartbeat(self, process_id: str) -> str:
        """A process's own account of itself (string with a TTL of seconds)."""
        return f"{self.prefix}hb:{process_id}"

    def history(self, channel_id: int) -> str:
        """The channel's recent messages (list). Private."""
        return f"{self.prefix}h:{channel_id}"

    def leader(self, partition: int) -> str:
        """The lease of the gateway that delivers a partition (string)."""
        return f"{self.prefix}lead:{partition}"

    def out(self, partition: int) -> str:
        """The out stream of a partition."""
        return f"{self.prefix}out:{partition}"

    def partition_of(self, channel_id: int) -> int:
        """The partition of a channel: all its turns go through one stream, in order."""
        return crc32(str(channel_id).encode()) % self.partitions

    def out_of(self, channel_id: int) -> str:
        """The out stream that a channel's segments go to."""
        return self.out(self.partition_of(channel_id))

    @property
    def wake(self) -> str:
        """Wake tokens for idle workers (list)."""
        return f"{self.prefix}wake"

    @property
    def errors(self) -> str:
        """Error reports on their way to the recorder (stream)."""
        return f"{self.prefix}errors"

    @property
    def failed(self) -> str:
        """Failed turns by time (sorted set, score = milliseconds)."""
        return f"{self.prefix}failed"
