"""What must hold of a run of turns, whatever was done to it: one checker for every scenario.

Comes in: a `History`, recorded after all is quiet. Goes out: what is wrong, by promise. The shape
is Jepsen's: a history is recorded, faults are injected, and one checker reads the history.

A history need not have everything: a promise whose facts are missing is not told as kept.
"""

import itertools
from collections.abc import Callable

import msgspec

from shared.causes import needs_operator
from shared.edges.records import TimelineEntry
from shared.segments import AttemptSuperseded, Envelope, SegmentReady
from shared.turns import TRANSITIONS, CredentialSource, TurnState

ENDS = frozenset(state.value for state, following in TRANSITIONS.items() if not following)
MAX_CRASHES = 3
STEP_MS = 1
"""Timelines are in whole milliseconds."""


class TurnStory(msgspec.Struct, kw_only=True):
    """What happened to one turn.

    `shown` are its texts as the channel has them in the end, `beside` the channel's texts that are
    nobody's, `told` its entries of the out stream, None where nobody looked. `may_end` says which
    ends the scenario asks for.
    """

    turn_id: str
    lane: str
    expected: tuple[str, ...] = ()
    state: TurnState | None = None
    crashes: int = 0
    cause: str | None = None
    moves: list[TimelineEntry] = msgspec.field(default_factory=list)
    shown: list[str] | None = None
    told: list[Envelope] | None = None
    beside: list[str] = msgspec.field(default_factory=list)
    rows: int | None = None
    is_replayable: bool = False
    may_end: frozenset[TurnState] = frozenset({TurnState.DONE})


class History(msgspec.Struct, kw_only=True):
    """What happened in a scenario. Turns stand in the order of their prompts.

    `moments` are moments at which a channel showed something wrong; `peaks` the most that ran at
    once by guild or key, with `caps` beside it; `recoveries_s` from a deed to its repair, and
    `silences_s` from a prompt to the first sign. `exits` are processes that ended by themselves,
    `leaks` private texts in logs, `left` what lies about when all is quiet, `armed` the ended turns
    that a button in the channel would still stop, a while after all was quiet.
    """

    turns: list[TurnStory] = msgspec.field(default_factory=list)
    moments: list[str] | None = None
    peaks: dict[str, int] = msgspec.field(default_factory=dict)
    caps: dict[str, int] = msgspec.field(default_factory=dict)
    left: list[str] | None = None
    exits: list[str] | None = None
    recoveries_s: list[float] = msgspec.field(default_factory=list)
    bound_s: float = 0.0
    leaks: list[str] | None = None
    silences_s: list[float] = msgspec.field(default_factory=list)
    silence_s: float = 0.0
    armed: list[str] | None = None


Wrong = list[str] | None
"""What is wrong, or None where the history has nothing to tell it by."""


def one_end(history: History) -> Wrong:
    """P1: every accepted turn has exactly one terminal event, and the one that was due."""
    wrong: list[str] = []
    for turn in history.turns:
        ends = [move.word for move in turn.moves if move.word in ENDS]
        if turn.state is None:
            wrong.append(f"{turn.turn_id} is unknown")
        elif turn.moves and ends != [turn.state]:
            wrong.append(f"{turn.turn_id} is {turn.state}; its ends: {ends}")
        if turn.told is not None and [_is_end(e) for e in turn.told].count(True) != 1:
            wrong.append(f"{turn.turn_id} put {len(turn.told)} entries out, without one end")
        is_poison = turn.state is TurnState.DEAD and turn.crashes >= MAX_CRASHES
        if turn.state not in turn.may_end and not is_poison:
            wrong.append(f"{turn.turn_id} is {turn.state} ({turn.cause}), {turn.crashes} crashes")
    return wrong


def whole_replies(history: History) -> Wrong:
    """P2: a reply is the segments of the last attempt, each once, in order."""
    wrong = list(history.moments or [])
    for turn in history.turns:
        attempts = [move.attempt for move in turn.moves]
        if attempts != sorted(attempts):
            wrong.append(f"{turn.turn_id} went back in its attempts: {attempts}")
        if turn.told is not None:
            wrong += _told_wrong(turn, turn.told)
        if turn.shown is None:
            continue
        begun = list(turn.expected[: len(turn.shown)])
        is_whole = turn.state is not TurnState.DONE or len(turn.shown) == len(turn.expected)
        if turn.expected and (turn.shown != begun or not is_whole):
            wrong.append(
                f"{turn.turn_id} ({turn.state}) shows {turn.shown}, and beside them {turn.beside}"
            )
    return wrong


def _is_end(envelope: Envelope) -> bool:
    return not isinstance(envelope.event, SegmentReady | AttemptSuperseded)


def _told_wrong(turn: TurnStory, told: list[Envelope]) -> list[str]:
    """The out stream's side: what a gateway would make of the entries of a turn."""
    if not told or not _is_end(told[-1]):
        return [f"{turn.turn_id}: its last entry is no end"]
    last, wrong = told[-1], []
    attempts = [envelope.attempt for envelope in told]
    if attempts != sorted(attempts):
        wrong.append(f"{turn.turn_id}: attempts {attempts}")
    segments = [e for e in told if isinstance(e.event, SegmentReady)]
    final = [e.seq for e in segments if (e.attempt, e.claim) == (last.attempt, last.claim)]
    count = getattr(last.event, "count", 0)
    if final != list(range(1, count + 1)):
        wrong.append(f"{turn.turn_id}: segments {final}, {count} counted")
    if turn.state is TurnState.DONE and turn.expected and count != len(turn.expected):
        wrong.append(f"{turn.turn_id}: {count} segments of {len(turn.expected)}")
    by = [e.event.by for e in told if isinstance(e.event, AttemptSuperseded)]
    was_shown = any(e.attempt < last.attempt for e in segments)
    if len(by) != len(set(by)) or (was_shown and last.attempt not in by):
        wrong.append(f"{turn.turn_id}: superseded by {by}, ended by {last.attempt}")
    return wrong


def lanes_in_order(history: History) -> Wrong:
    """P3: the turns of a lane start in the order of their prompts, and never overlap."""
    by_lane: dict[str, list[TurnStory]] = {}
    for turn in history.turns:
        if any(move.word == "claimed" for move in turn.moves):
            by_lane.setdefault(turn.lane, []).append(turn)
    if not by_lane:
        return None
    wrong = []
    for turns in by_lane.values():
        for one, other in itertools.pairwise(turns):
            begun = next(move.at_ms for move in other.moves if move.word == "claimed")
            ended = next((move.at_ms for move in one.moves if move.word in ENDS), begun)
            if begun + STEP_MS < ended:
                wrong.append(f"{other.turn_id} began before {one.turn_id} had ended")
    return wrong


def caps_kept(history: History) -> Wrong:
    """P4: no guild and no key ever runs more than its cap."""
    if not history.peaks:
        return None
    return [
        f"{name}: {peak} ran at once, {history.caps[name]} may"
        for name, peak in history.peaks.items()
        if peak > history.caps[name]
    ]


def nothing_left(history: History) -> Wrong:
    """P5: afterwards no lease, lane, count, guild or entry is left, and no key without a TTL."""
    return None if history.left is None else [f"left over: {name}" for name in history.left]


def nobody_dies(history: History) -> Wrong:
    """P6: no process ends that nobody ended."""
    return history.exits


def soon_repaired(history: History) -> Wrong:
    """P7: what was broken goes on within the bound."""
    if not history.recoveries_s:
        return None
    return [
        f"a recovery took {seconds:.1f} s, not {history.bound_s:.1f}"
        for seconds in history.recoveries_s
        if seconds > history.bound_s
    ]


def failures_recorded(history: History) -> Wrong:
    """P8: a failed turn can be replayed, and has a row if somebody must act."""
    failed = [t for t in history.turns if t.state in (TurnState.FAILED, TurnState.DEAD)]
    if not failed:
        return None
    wrong = [f"{t.turn_id} cannot be replayed" for t in failed if not t.is_replayable]
    for turn in failed:
        due = turn.cause is not None and needs_operator(turn.cause, CredentialSource.SERVER)
        if turn.rows is not None and due and not turn.rows:
            wrong.append(f"{turn.turn_id} failed ({turn.cause}) without a row")
    return wrong


def nothing_leaks(history: History) -> Wrong:
    """P9: no key and no prompt stands in a log."""
    return history.leaks


def soon_a_sign(history: History) -> Wrong:
    """P10: whoever asked sees a sign of it soon."""
    if not history.silences_s:
        return None
    return [
        f"nothing was heard for {seconds:.1f} s, {history.silence_s:.1f} are allowed"
        for seconds in history.silences_s
        if seconds > history.silence_s
    ]


def no_dead_button(history: History) -> Wrong:
    """P11: no reply keeps its button to stop it once it has ended."""
    if history.armed is None:
        return None
    return [f"{turn_id} has ended, and can still be stopped" for turn_id in history.armed]


PROMISES: dict[str, Callable[[History], Wrong]] = {
    "P1": one_end,
    "P2": whole_replies,
    "P3": lanes_in_order,
    "P4": caps_kept,
    "P5": nothing_left,
    "P6": nobody_dies,
    "P7": soon_repaired,
    "P8": failures_recorded,
    "P9": nothing_leaks,
    "P10": soon_a_sign,
    "P11": no_dead_button,
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and what is wrong, each with its promise before it."""

    kept: tuple[str, ...]
    wrong: tuple[str, ...]


def judged(history: History) -> Verdict:
    """Holds a history against every promise."""
    answers = {name: promise(history) for name, promise in PROMISES.items()}
    return Verdict(
        kept=tuple(name for name, wrong in answers.items() if wrong == []),
        wrong=tuple(f"{name} {line}" for name, wrong in answers.items() for line in wrong or ()),
    )
