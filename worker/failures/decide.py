"""What to do after a failed attempt: try again, with what changed, or say that it failed.

Comes in: a classified error and where the turn stands. Goes out: one `Decision`, a value that the
driver carries out. Pure; the driver and `turnfleet classify` import it.

A request that cannot succeed is never repeated as it was. A key is changed for reasons of the key
only (auth, rate limit, balance): healthy keys must not cool down for a context overflow. What a
failed attempt showed is superseded by the next one, never continued: continuing doubles endings.
"""

from enum import StrEnum
from typing import assert_never

import msgspec

from shared.causes import Cause, Family, facts_of
from shared.failures import ProviderError

MAX_ATTEMPTS = 4
"""Of one turn: a person waits for it, and a provider in trouble is not helped by more."""
MAX_WAIT_S = 20.0
"""The longest wait in front of a person; a longer `Retry-After` means another key or model."""
FIRST_DELAY_S = 1.0
"""Doubled with each attempt: provider guides ask for exponential backoff from about a second."""
KEY_COOLDOWN_S: dict[Family, float] = {
    Family.RATE: 60.0,
    Family.AUTH: 300.0,
    Family.BILLING: 300.0,
}
"""How long a key is left alone, by family, where the provider names no time: a minute's window,
and five minutes in which somebody may mend it."""
DAY_COOLDOWN_S = 3600.0
"""For a quota of the day: looked at again each hour, since providers reset at different hours."""


class Action(StrEnum):
    """What the next attempt changes; `GIVE_UP` has none."""

    RETRY = "retry"
    ROTATE_KEY = "rotate_key"
    FALL_BACK = "fall_back"
    LOWER_MAX_TOKENS = "lower_max_tokens"
    TRIM_HISTORY = "trim_history"
    DROP_PARAMETER = "drop_parameter"
    GIVE_UP = "give_up"


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn stands.

    Args:
        attempt: number of the attempt that failed, from 1.
        emitted: it has shown text.
        may_supersede: shown text may be replaced (a setting; no tool ran since; the turn is young).
        keys_left: other keys of the pool that are not cooling down.
        fallbacks_left: further models of the chain.
        without: parameters that the asked request left out; a vendor may refuse one by one.
        done: actions that this turn has used; repairs are tried once, a retry once before the next
            model of the chain.
    """

    attempt: int = 1
    emitted: bool = False
    may_supersede: bool = True
    keys_left: int = 0
    fallbacks_left: int = 0
    without: frozenset[str] = frozenset()
    done: frozenset[Action] = frozenset()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver does.

    Args:
        action: what the next attempt changes.
        delay_s: what it waits before.
        supersedes: the next attempt replaces what was shown.
        key_cooldown_s: how long the key that failed is left alone; 0 leaves it in use.
        max_tokens: the new cap, for `LOWER_MAX_TOKENS`.
        parameter: the field to leave out, for `DROP_PARAMETER`.
    """

    action: Action
    delay_s: float = 0.0
    supersedes: bool = False
    key_cooldown_s: float = 0.0
    max_tokens: int | None = None
    parameter: str | None = None


PLANS: dict[Family, tuple[Action, ...]] = {
    Family.AUTH: (Action.ROTATE_KEY, Action.FALL_BACK),
    Family.BILLING: (Action.ROTATE_KEY, Action.FALL_BACK),
    Family.ACCESS: (Action.FALL_BACK,),
    Family.ENDPOINT: (Action.FALL_BACK,),
    Family.MODEL: (Action.FALL_BACK,),
    Family.CONTEXT: (Action.TRIM_HISTORY,),
    Family.REQUEST: (Action.DROP_PARAMETER,),
    Family.GENERATION: (Action.RETRY, Action.FALL_BACK),
    Family.RATE: (Action.ROTATE_KEY, Action.FALL_BACK, Action.RETRY),
    Family.CONTENT: (),
    Family.TIMEOUT: (Action.FALL_BACK, Action.RETRY),
    Family.OVERLOAD: (Action.FALL_BACK, Action.RETRY),
    Family.UPSTREAM: (Action.RETRY, Action.FALL_BACK),
    Family.INTERNAL: (Action.RETRY,),
}
"""By family, what is tried, in this order; `RETRY` only where the cause is retryable, and once
while there is another model to fall back to."""

OWN_PLANS: dict[Cause, tuple[Action, ...]] = {
    Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS: (
        Action.LOWER_MAX_TOKENS,
        Action.ROTATE_KEY,
        Action.FALL_BACK,
    ),
    Cause.DATA_POLICY: (),  # a privacy setting: another model would hide it
    Cause.QUOTA_EXHAUSTED: (),
    Cause.SUBSCRIPTION_REQUIRED: (),
}
"""Causes that their family's plan does not suit."""

_ONCE = frozenset({Action.LOWER_MAX_TOKENS, Action.TRIM_HISTORY})


def decide(error: ProviderError, situation: Situation, *, jitter: float = 0.0) -> Decision:
    """The first action of the plan that this situation allows, else giving up.

    Args:
        error: the classified failure.
        situation: where the turn stands.
        jitter: a random number from 0 to 1, so that a fleet does not retry in step.
    """
    cooldown_s = _cooldown_s(error)
    if situation.attempt >= MAX_ATTEMPTS or (situation.emitted and not situation.may_supersede):
        return Decision(action=Action.GIVE_UP, key_cooldown_s=cooldown_s)
    action = next(
        (one for one in plan_of(error.cause) if _is_open(one, error, situation)), Action.GIVE_UP
    )
    if action is Action.GIVE_UP:
        return Decision(action=action, key_cooldown_s=cooldown_s)
    return Decision(
        action=action,
        delay_s=_delay_s(error, situation, jitter) if action is Action.RETRY else 0.0,
        supersedes=situation.emitted,
        key_cooldown_s=cooldown_s,
        max_tokens=error.affordable_tokens if action is Action.LOWER_MAX_TOKENS else None,
        parameter=error.parameter if action is Action.DROP_PARAMETER else None,
    )


def plan_of(cause: str) -> tuple[Action, ...]:
    """What is tried after a cause, in order."""
    own = OWN_PLANS.get(Cause(cause)) if cause in Cause.__members__.values() else None
    return PLANS[facts_of(cause).family] if own is None else own


def _is_open(action: Action, error: ProviderError, situation: Situation) -> bool:
    """Whether an action is possible now."""
    if action in situation.done & _ONCE:
        return False
    match action:
        case Action.RETRY if situation.fallbacks_left and action in situation.done:
            return False  # it was asked again already: another model is the better try
        case Action.RETRY:
            return error.retryable and _delay_s(error, situation, 0.0) <= MAX_WAIT_S
        case Action.ROTATE_KEY:
            return situation.keys_left > 0
        case Action.FALL_BACK:
            return situation.fallbacks_left > 0
        case Action.LOWER_MAX_TOKENS:
            return bool(error.affordable_tokens)
        case Action.DROP_PARAMETER:
            return error.parameter is not None and error.parameter not in situation.without
        case Action.TRIM_HISTORY | Action.GIVE_UP:
            return True
        case _:
            assert_never(action)


def _delay_s(error: ProviderError, situation: Situation, jitter: float) -> float:
    """The provider's word, else 1, 2, 4 s; jitter adds up to half, and never less than the word."""
    backoff_s = FIRST_DELAY_S * 2.0 ** (situation.attempt - 1)
    base_s = backoff_s if error.retry_after_s is None else error.retry_after_s
    return base_s + backoff_s * jitter / 2


def _cooldown_s(error: ProviderError) -> float:
    """How long the key rests: only after failures that are the key's."""
    if Action.ROTATE_KEY not in plan_of(error.cause):
        return 0.0
    if error.cause == Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS:
        return 0.0  # it still pays for a shorter answer
    if error.cause == Cause.DAILY_QUOTA_EXHAUSTED:
        return DAY_COOLDOWN_S
    named_s = error.retry_after_s if facts_of(error.cause).family is Family.RATE else None
    return KEY_COOLDOWN_S[facts_of(error.cause).family] if named_s is None else named_s
