"""Every Redis key, stream and group of turnfleet, with what it holds.

Comes in: ids. Goes out: key names. This is the one place that spells them; Lua gets the prefix and
joins the same suffixes; `shared.lifetimes` says how long things live. Anyone may import it.

A key is `tf:{cell}:<suffix>`. The braces are Redis's hash tag: one cell, one slot.
"""

from typing import Final
from zlib import crc32

ARQ_JOB: Final = "arq:job:"
"""arq's own prefix of a job. arq knows no cells; a turn id is unique in the whole server."""
RECORDER_GROUP: Final = "recorder"
OPERATORS_GROUP: Final = "operators"


class Keys:
    """The key names of one cell.

    Args:
        cell: the deployment's name within its Redis.
        partitions: how many out streams there are; the same number for gateway and workers.
    """

    __slots__ = ("cell", "partitions", "prefix")

    def __init__(self, cell: str = "main", partitions: int = 4) -> None:
        self.cell = cell
        self.prefix = f"tf:{{{cell}}}:"
        self.partitions = partitions

    def turn(self, turn_id: str) -> str:
        """The turn's record (hash): request, route, state, attempt, claim, seq, owner, cancel."""
        return f"{self.prefix}t:{turn_id}"

    def timeline(self, turn_id: str) -> str:
        """What happened to a turn, in order (list of `ms word attempt who`)."""
        return f"{self.prefix}log:{turn_id}"

    def lane(self, lane: str) -> str:
        """The waiting turns of a lane (list, first in first out)."""
        return f"{self.prefix}lane:{lane}"

    def guild(self, guild: str) -> str:
        """The lanes of a guild that could start a turn now (list)."""
        return f"{self.prefix}guild:{guild}"

    def parked(self, provider_key: str) -> str:
        """The lanes that wait for a slot of a provider key (list of `guild|lane`)."""
        return f"{self.prefix}parked:{provider_key}"

    def key_pool(self, provider: str) -> str:
        """Uses and rests of a provider's keys, by digests of them (hash)."""
        return f"{self.prefix}pool:{provider}"

    def traffic(self, provider: str, model: str) -> str:
        """A model's breaker and retry budget (hash)."""
        return f"{self.prefix}traffic:{provider}|{model}"

    def last_claim(self, worker_id: str) -> str:
        """The turns of a worker's last claim (hash)."""
        return f"{self.prefix}claim:{worker_id}"

    def job(self, turn_id: str) -> str:
        """The job that arq reads (string, msgpack)."""
        return f"{ARQ_JOB}{turn_id}"

    def mark(self, turn_id: str) -> str:
        """The mark that this turn id was admitted once (string)."""
        return f"{self.prefix}m:{turn_id}"

    def thoughts(self, turn_id: str) -> str:
        """What the model thought before a reply (string). Private."""
        return f"{self.prefix}thoughts:{turn_id}"

    def context_start(self, channel_id: int) -> str:
        """The id of a message; the model reads nothing of the channel before it (string)."""
        return f"{self.prefix}start:{channel_id}"

    def told(self, channel_id: int, word: str) -> str:
        """The mark that a channel was told something lately (string)."""
        return f"{self.prefix}told:{channel_id}:{word}"

    def recent_turns(self, channel_id: int) -> str:
        """The latest turns of a channel, the newest first (list)."""
        return f"{self.prefix}recent:{channel_id}"

    def asked_about(self, interaction_id: int) -> str:
        """A message while the question about it is written (string). Private."""
        return f"{self.prefix}about:{interaction_id}"

    def recording(self, turn_id: str, attempt: int) -> str:
        """The provider's bytes of a failed attempt (string, compressed). Private."""
        return f"{self.prefix}rec:{turn_id}:{attempt}"

    def picture(self, picture_id: str) -> str:
        """A picture that a model made, on its way to the channel (string). Private."""
        return f"{self.prefix}pic:{picture_id}"

    def continuation(self, turn_id: str) -> str:
        """A reply that was cut off, and its turn's request (string). Private."""
        return f"{self.prefix}cont:{turn_id}"

    def rounds(self, turn_id: str) -> str:
        """The tool rounds that a running turn has completed (string). Private."""
        return f"{self.prefix}rounds:{turn_id}"

    def journal(self, turn_id: str) -> str:
        """The gateway's write-ahead journal of a turn (hash)."""
        return f"{self.prefix}j:{turn_id}"

    def armed(self, partition: int) -> str:
        """Ended replies whose button to stop them is still to be taken away (hash by turn)."""
        return f"{self.prefix}armed:{partition}"

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
        """The channel's recent messages by id (hash). Private."""
        return f"{self.prefix}h:{channel_id}"

    def details(self, channel_id: int) -> str:
        """What replies in a channel noted for later turns (list). Private."""
        return f"{self.prefix}memo:{channel_id}"

    def config_text(self, digest: str) -> str:
        """The text of a configuration file that some process runs with (string). No secrets."""
        return f"{self.prefix}config:{digest}"

    def spend(self, scope: str, owner: str, span: str) -> str:
        """What was spent in a day or a month (hash of cost and tokens, whole and own keys)."""
        return f"{self.prefix}spend:{scope}:{owner}:{span}"

    def spent_mark(self, turn_id: str, attempt: int, claim: str) -> str:
        """That an attempt was added to what was spent (string)."""
        return f"{self.prefix}spent:{turn_id}:{attempt}:{claim}"

    def person(self, user_id: int) -> str:
        """A person's turns that are not over (hash of turn id to milliseconds)."""
        return f"{self.prefix}person:{user_id}"

    def leader(self, partition: int) -> str:
        """The lease of the gateway that delivers a partition (string)."""
        return f"{self.prefix}lead:{partition}"

    def last_leader(self, partition: int) -> str:
        """The gateway that led a partition last, beyond the end of its lease (string)."""
        return f"{self.prefix}led:{partition}"

    @property
    def memory(self) -> str:
        """A word that is gone when the server forgot everything (string)."""
        return f"{self.prefix}memory"

    def out(self, partition: int) -> str:
        """The out stream of a partition."""
        return f"{self.prefix}out:{partition}"

    def partition_of(self, channel_id: int) -> int:
        """The partition of a channel: all its turns go through one stream, in order."""
        return crc32(str(channel_id).encode()) % self.partitions

    def out_of(self, channel_id: int) -> str:
        """The out stream that a channel's segments go to."""
        return self.out(self.partition_of(channel_id))

    def send_block(self, channel_id: int) -> str:
        """The mark that a channel refuses what we say (string)."""
        return f"{self.prefix}sb:{channel_id}"

    def no_files(self, channel_id: int) -> str:
        """The mark that a channel takes no files (string)."""
        return f"{self.prefix}nofiles:{channel_id}"

    def table_source(self, name: str) -> str:
        """The source of a drawn table, for its button (string). Private."""
        return f"{self.prefix}src:{name}"

    def budget(self, bot: str) -> str:
        """The times of a bot's last requests to Discord (list of ms, the newest first)."""
        return f"{self.prefix}budget:{bot}"

    def budget_load(self, bot: str) -> str:
        """How much a bot asks of Discord (hash: requests a second, when that was)."""
        return f"{self.prefix}load:{bot}"

    def local_messages(self, channel_id: int) -> str:
        """The messages of a local channel by id (hash). Private."""
        return f"{self.prefix}loc:c:{channel_id}"

    def local_changes(self, channel_id: int) -> str:
        """What happened in a local channel, for those who watch it (stream). Private."""
        return f"{self.prefix}loc:ev:{channel_id}"

    def local_nonce(self, nonce: str) -> str:
        """The local message that was sent with this nonce (string)."""
        return f"{self.prefix}loc:x:{nonce}"

    def local_typing(self, channel_id: int) -> str:
        """The typing sign of a local channel (string with a TTL of seconds)."""
        return f"{self.prefix}loc:ty:{channel_id}"

    def front(self, what: str) -> str:
        """What gateways share of a bot: hashes `leases`, `gateways`, `sessions` and `marks`.

        Further `dm` (sorted set), `alive`, `count`, `identify:N`, `invalid:N`, `changes` (stream).
        """
        return f"{self.prefix}front:{what}"

    @property
    def local_prompts(self) -> str:
        """Prompts of local channels on their way to the gateway (stream). Private."""
        return f"{self.prefix}loc:in"

    @property
    def local_clock(self) -> str:
        """The last message id of the local channels (string)."""
        return f"{self.prefix}loc:id"

    @property
    def choices(self) -> str:
        """What guilds, channels and users chose, by `scope:id` (hash, no TTL)."""
        return f"{self.prefix}choices"

    @property
    def config_wish(self) -> str:
        """A random word that changes when every process shall read its file again (string)."""
        return f"{self.prefix}config.wish"

    @property
    def places(self) -> str:
        """The notices of turns that wait, by turn id (hash)."""
        return f"{self.prefix}places"

    @property
    def wake(self) -> str:
        """Wake tokens for idle workers (list)."""
        return f"{self.prefix}wake"

    @property
    def errors(self) -> str:
        """Error reports on their way to the recorder (stream)."""
        return f"{self.prefix}errors"

    @property
    def alerts(self) -> str:
        """What operators should look at now (stream, no TTL, the newest `ALERTS_MAX`)."""
        return f"{self.prefix}alerts"

    def alert_mark(self, name: str) -> str:
        """The mark that this alert was raised lately (string)."""
        return f"{self.prefix}alerted:{name}"

    @property
    def failed(self) -> str:
        """Failed turns by time (sorted set, score = milliseconds)."""
        return f"{self.prefix}failed"

    @property
    def dead(self) -> str:
        """Dead letters: turns that took a worker with them too often (stream)."""
        return f"{self.prefix}dead"

    @property
    def buried(self) -> str:
        """Stream entries that nobody could read, with the reason (stream)."""
        return f"{self.prefix}buried"

    @property
    def leases(self) -> str:
        """The running turns (sorted set, score = when the lease ends, in milliseconds)."""
        return f"{self.prefix}lease"

    @property
    def ring(self) -> str:
        """The guilds that could start a turn now (sorted set, score = virtual time)."""
        return f"{self.prefix}ring"

    @property
    def low_ring(self) -> str:
        """The guilds that could start a replay now (sorted set, score = virtual time)."""
        return f"{self.prefix}ring.low"

    @property
    def ring_times(self) -> str:
        """The virtual time of guilds that are ahead of the ring's (sorted set)."""
        return f"{self.prefix}vtime"

    @property
    def waiting(self) -> str:
        """The turns that wait, wherever they do (sorted set, score = deadline in milliseconds)."""
        return f"{self.prefix}waiting"

    @property
    def delayed(self) -> str:
        """The turns that may not start yet (sorted set, score = when they may, milliseconds)."""
        return f"{self.prefix}delay"

    @property
    def pauses(self) -> str:
        """What is paused (sorted set, score = until when in milliseconds, or infinity)."""
        return f"{self.prefix}pause"

    @property
    def parked_lanes(self) -> str:
        """Where each parked queue is parked (hash: lane -> `guild|what it waits for`)."""
        return f"{self.prefix}parked"

    @property
    def totals(self) -> str:
        """Depth of the cell, virtual time of the ring, clock of the reaper (hash)."""
        return f"{self.prefix}totals"

    @property
    def depth(self) -> str:
        """Queued and running turns by guild (hash)."""
        return f"{self.prefix}depth"

    @property
    def running_guilds(self) -> str:
        """Running turns by guild (hash)."""
        return f"{self.prefix}run.guild"

    @property
    def running_keys(self) -> str:
        """Running turns by provider key (hash)."""
        return f"{self.prefix}run.key"

    @property
    def running_lanes(self) -> str:
        """The running turn of each lane (hash)."""
        return f"{self.prefix}run.lane"

    @property
    def processes(self) -> str:
        """The processes that reported lately (sorted set, score = milliseconds)."""
        return f"{self.prefix}processes"

    @property
    def forget_due(self) -> str:
        """Whom to forget, and when (sorted set of `user:ID` or `guild:ID`, no TTL)."""
        return f"{self.prefix}forget"

    @property
    def forget_rows(self) -> str:
        """Whom the recorder shall take out of the database (sorted set, no TTL)."""
        return f"{self.prefix}forget:rows"

    @property
    def forgotten(self) -> str:
        """Who was forgotten lately, by digest (hash). Reports of them lose their ids."""
        return f"{self.prefix}forgotten"

    def forgot(self, who: str) -> str:
        """That a command forgot somebody a moment ago, by digest, or forgets `anybody` (string)."""
        return f"{self.prefix}forgot:{who}"

    @property
    def credentials(self) -> str:
        """Sealed credentials by reference (hash, no TTL).

        A root of its own: an ACL cannot exclude keys, and only few may read these.
        """
        return f"tfsec:{{{self.cell}}}:cred"

    @property
    def credential_pauses(self) -> str:
        """People who leave their own credentials unused, by id (hash, no TTL)."""
        return f"tfsec:{{{self.cell}}}:off"

    @property
    def credential_loans(self) -> str:
        """Which supporter's credential a guild uses, by `guild:provider` (hash, no TTL)."""
        return f"tfsec:{{{self.cell}}}:loan"

    @property
    def mirrored(self) -> str:
        """The mark of the mirror that the database keeps of this server (string, no TTL)."""
        return f"{self.prefix}mirrored"

    @property
    def mirror_version(self) -> str:
        """How often that mirror was written; less than it says itself: an old dump (no TTL)."""
        return f"{self.prefix}mirrored:version"

    @property
    def credential_audit(self) -> str:
        """What was done to credentials, the newest first (list, no TTL)."""
        return f"tfsec:{{{self.cell}}}:audit"
