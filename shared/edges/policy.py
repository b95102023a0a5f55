"""The numbers and ready-made events that the scripts work with.

Comes in: settings. Goes out: `Policy`, sent with every script as JSON. Edges import it.
"""

from typing import Self

import msgspec

from shared import lifetimes
from shared.causes import Cause
from shared.config import CrashPolicy, Settings
from shared.failures import FailureCategory, Fault
from shared.segments import (
    MERGED,
    REPLACED,
    WITHDRAWN,
    AttemptSuperseded,
    TurnDone,
    TurnEvent,
    TurnFailed,
)
from shared.turns import Charge, TurnState
from shared.wire import encode_json

LEASE_MS = 6_000
"""A dead worker is noticed after this. Under 3 s, a stalled pod would look dead."""
BEAT_S = 2.0
"""A third of a lease: two beats may fail."""
REAP_S = 0.5
"""How often a worker looks for ended leases: half a second after one, at the latest."""
REAP_GAP_MS = LEASE_MS // 2
"""When nobody reaped for so long, the server was away rather than the workers."""
MAX_CRASHES = 3
"""A turn that took three workers with it is poison."""
KEY_RUNNING = 1_000
"""Running turns of one provider key; a bound for the scripts, the key's own limit comes as 429."""
OUT_MAX_ENTRIES = 20_000
"""Entries of an out stream before workers wait: 5 MB, minutes of a gateway's absence."""
CRASH_DELAYS_MS = (0, 5_000, 30_000)
"""After the first crash of a turn, the second and so on. One dead worker is an accident and nobody
should wait for it; a turn that kills two is likely poison, and must not take the fleet down."""
LOW_SHARE = 10
"""Of so many starts one is a replay's, where both wait: replays go on, and nobody feels them."""
CHARGE_MEMORY = 50
"""Turns that the average cost looks back at."""
CHARGE_MAX = 20.0
"""The most that one turn is charged, in average ones: a stuck turn is no reason to lock a guild
out for an hour."""
PLACEHOLDER = -1


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the scripts need to know. `crash` is `supersede` or `notice`.

    The last eight are events in JSON; `@count@`, `@attempt@` and `@by@` are filled in by the
    scripts, which know the numbers.
    """

    guild_depth: int
    global_depth: int
    guild_running: int
    wait_ms: int
    run_ms: int
    crash: CrashPolicy = CrashPolicy.SUPERSEDE
    key_running: int = KEY_RUNNING
    lease_ms: int = LEASE_MS
    reap_gap_ms: int = REAP_GAP_MS
    max_crashes: int = MAX_CRASHES
    turn_ttl_ms: int = lifetimes.TURN_TTL_MS
    done_ttl_ms: int = lifetimes.DONE_TTL_MS
    failed_ttl_ms: int = lifetimes.FAILED_TTL_MS
    mark_ttl_ms: int = lifetimes.MARK_TTL_MS
    claim_ttl_ms: int = lifetimes.CLAIM_TTL_MS
    control_ttl_ms: int = lifetimes.CONTROL_TTL_MS
    failed_max: int = lifetimes.FAILED_MAX_TURNS
    dead_max: int = lifetimes.DEAD_MAX_TURNS
    crash_delays_ms: tuple[int, ...] = CRASH_DELAYS_MS
    low_share: int = LOW_SHARE
    charge: Charge = Charge.SECONDS
    charge_memory: int = CHARGE_MEMORY
    charge_max: float = CHARGE_MAX
    superseded: str = ""
    cancelled: str = ""
    replaced: str = ""
    withdrawn: str = ""
    merged: str = ""
    expired: str = ""
    lost: str = ""
    lost_in_tool: str = ""
    dead: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The policy of a deployment."""
        deadline_ms = int(settings.turn_deadline_s * 1000)
        return cls(
            guild_depth=settings.guild_depth,
            global_depth=settings.global_depth,
            # A quarter of a worker: a busy guild leaves room, and a small worker still works.
            guild_running=max(2, settings.slots // 4),
            wait_ms=deadline_ms,
            run_ms=deadline_ms,
            crash=settings.crash_policy,
            charge=settings.fair_by,
            superseded=_superseded(),
            cancelled=_cancelled(),
            replaced=_cancelled(REPLACED),
            withdrawn=_cancelled(WITHDRAWN),
            merged=_cancelled(MERGED),
            expired=_counted(
                _failed(Cause.REQUEST_TIMEOUT, FailureCategory.TIMEOUT, "notice.no_worker")
            ),
            lost=_counted(_lost(TurnState.FAILED)),
            lost_in_tool=_counted(_lost(TurnState.FAILED, in_tool=True)),
            dead=_counted(_lost(TurnState.DEAD)),
        )


def _cancelled(*notes: str) -> str:
    return _counted(TurnDone(count=PLACEHOLDER, state=TurnState.CANCELLED, notes=notes))


def _lost(state: TurnState, *, in_tool: bool = False) -> TurnFailed:
    headline = "notice.lost_in_tool" if in_tool else "failure.worker_lost"
    return msgspec.structs.replace(
        _failed(Cause.WORKER_LOST, FailureCategory.INTERNAL, headline),
        state=state,
        retryable=True,
    )


def _failed(cause: Cause, category: FailureCategory, headline: str) -> TurnFailed:
    # The scripts know no languages: the headline is a key, which the gateway says.
    return TurnFailed(
        cause=cause,
        category=category,
        count=PLACEHOLDER,
        headline=headline,
        fault=Fault.TURNFLEET,
        retryable=True,
    )


def _counted(event: TurnEvent) -> str:
    return encode_json(event).decode().replace('"count":-1', '"count":@count@')


def _superseded() -> str:
    event = encode_json(AttemptSuperseded(attempt=PLACEHOLDER, by=PLACEHOLDER)).decode()
    return event.replace('"attempt":-1', '"attempt":@attempt@').replace('"by":-1', '"by":@by@')


def counted_event(event: TurnDone | TurnFailed) -> str:
    """The event in JSON; a count of -1 becomes what the server accepted."""
    return _counted(event)
