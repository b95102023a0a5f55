"""How long things live in Redis, and how many of them at most: each number with its reason.

Comes in: nothing. Goes out: milliseconds and counts. `shared.keys` spells the keys that they bound.
Anyone may import it.
"""

from typing import Final

TURN_TTL_MS: Final = 48 * 3_600_000
"""A live turn's record. A fleet may be without workers for a night and a day: whoever comes back
must still find what waited, and give it its end. The depth caps bound the memory."""
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
LAST_LEADER_TTL_MS: Final = 3_600_000
"""Who led a partition last: longer than any outage after which a gateway trusts its memory."""
MEMORY_TTL_MS: Final = 7 * 24 * 3_600_000
"""The word that tells a server that forgot everything. That it ends looks like that, once a week,
and costs a few admissions that are refused as duplicates."""
LOCAL_TTL_MS: Final = 24 * 3_600_000
"""A local channel after its last message: a day of looking at a rehearsal."""
LOCAL_NONCE_TTL_MS: Final = 5 * 60_000
"""The local channel's window for nonces; Discord says "a few minutes"."""
LOCAL_CHANGES_MAX: Final = 2_000
"""Changes of a local channel that a watcher may be behind; the messages themselves stay."""
FRONT_TTL_MS: Final = 24 * 3_600_000
"""How far a front had come when it was last seen: longer than the backfill horizon of 12 h."""
SHARDS_TTL_MS: Final = 3_600_000
"""Who had which shards of a bot, after the last beat: for an operator who looks after an outage."""
SESSION_TTL_MS: Final = 5 * 60_000
"""A session that a gateway has left, for the next to resume: Discord keeps it "a few minutes"."""
SHARD_COUNT_TTL_MS: Final = 60_000
"""How many shards a bot's gateways have agreed on, after the last beat of them all."""
INVALID_TTL_MS: Final = 11 * 60_000
"""A minute's count of refused requests: Discord counts those of ten minutes."""
FRONT_CHANGES_TTL_MS: Final = 15 * 60_000
"""What gateways tell each other of places: as long as a channel that refused is left alone."""
FRONT_CHANGES_MAX: Final = 1_000
"""How many of these: a gateway reads them every second."""
SEND_BLOCK_TTL_MS: Final = 15 * 60_000
"""How long a channel that refused us is left alone (one timed-out bot wasted 397 generations)."""
NO_FILES_TTL_MS: Final = 6 * 3_600_000
"""How long it is remembered that a channel takes no files: one refused request a quarter day."""
SOURCE_TTL_MS: Final = 72 * 3_600_000
"""The source of a drawn table behind its button; as long as a failed turn."""
BUDGET_TTL_MS: Final = 60_000
"""A request budget after its last request: it is full again after a second."""
FAULT_TTL_MS: Final = 72 * 3_600_000
"""The redacted snippet behind "Show full error"; as long as the turn can be replayed."""
CONTINUATION_TTL_MS: Final = 24 * 3_600_000
"""A reply that can go on: a conversation is over after a night."""
PICTURE_TTL_MS: Final = 30 * 60_000
"""A picture on its way: twice as long as delivery tries."""
KEY_POOL_TTL_MS: Final = 48 * 3_600_000
"""Uses and rests of a pool's keys after the last use: longer than any quota of a day."""
TRAFFIC_TTL_MS: Final = 10 * 60_000
"""A model's breaker and retry budget after its last request: ten windows of them."""
CLAIM_TTL_MS: Final = 60_000
"""What a worker's last claim took: a claim that is sent twice gets the same turns again."""
PLACES_TTL_MS: Final = 3_600_000
"""Where notices of waiting turns stand, after the last one: no turn waits so long."""
CONTROL_TTL_MS: Final = 60_000
"""Stops that a worker did not fetch: its turns are lost or ended long before."""
PROCESS_TTL_MS: Final = 10_000
"""A process that did not report for this long is gone: five beats."""
DEAD_MAX_TURNS: Final = 10_000
"""Dead letters kept at most; as many as failed turns."""
CREDENTIAL_AUDIT_MAX: Final = 10_000
"""Changes of credentials that are remembered: 2 MB at most."""
CONFIG_TTL_MS: Final = 48 * 3_600_000
"""The text of a configuration that a process runs with; it is written again while it runs."""
SPEND_TTL_MS: Final = 40 * 24 * 3_600_000
"""What was spent in a month, and some days to look at it."""
SPENT_MARK_TTL_MS: Final = 48 * 3_600_000
"""That an attempt was added to the budgets: as long as a turn's record can live."""
HISTORY_TTL_MS: Final = 24 * 3_600_000
"""A channel's latest messages after the last one: a conversation is over after a night."""
OVERHEARD_TTL_MS: Final = 3_600_000
"""The same where the bot is not spoken with: who calls it means the talk of this hour."""
DETAILS_TTL_MS: Final = 72 * 3_600_000
"""What replies noted for later turns, at most; guilds may keep less."""
CONTEXT_START_TTL_MS: Final = 7 * 24 * 3_600_000
"""That a channel began afresh: longer than its history lives, for what replies lead back to."""
TOLD_TTL_MS: Final = 3_600_000
"""How long a channel is not told the same again: an outage of a model is one event."""
ASKED_TTL_MS: Final = 15 * 60_000
"""What a window of Discord may refer to: as long as its token."""
RECENT_TTL_MS: Final = 72 * 3_600_000
"""The latest turns of a channel: as long as a failed one can be run again."""
RECENT_MAX_TURNS: Final = 20
"""Of a channel: what a command may act on."""
FORGOTTEN_TTL_MS: Final = 30 * 24 * 3_600_000
"""Who was forgotten, by digest: longer than a report may lie on a disk before it is sent."""
FORGETTING_TTL_MS: Final = 120_000
"""A command that forgets somebody and died: twice what such an answer may take."""
FORGOT_TTL_MS: Final = 10 * 60_000
"""How often one person may be forgotten by a command: it looks at every key of the cell."""
