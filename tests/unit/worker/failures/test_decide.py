"""What follows a failure: every cause has a plan, and a plan is followed as far as it goes."""

import pytest

from shared.causes import CAUSES, Cause, Family
from shared.failures import ProviderError
from worker.failures.decide import (
    DAY_COOLDOWN_S,
    KEY_COOLDOWN_S,
    MAX_ATTEMPTS,
    MAX_WAIT_S,
    OWN_PLANS,
    PLANS,
    Action,
    Situation,
    decide,
    plan_of,
)


def error(cause: Cause, **facts: object) -> ProviderError:
    row = CAUSES[cause]
    return ProviderError(
        category=row.category,
        cause=cause,
        retryable=row.is_retryable,
        **facts,  # type: ignore[arg-type]  # the facts vary
    )


RICH = Situation(keys_left=1, fallbacks_left=1)


def test_every_family_has_a_plan():
    assert set(PLANS) == set(Family)


@pytest.mark.parametrize("cause", Cause)
def test_what_cannot_succeed_is_never_repeated_as_it_was(cause):
    decision = decide(error(cause), Situation())
    if not CAUSES[cause].is_retryable:
        assert decision.action is not Action.RETRY


@pytest.mark.parametrize("cause", Cause)
def test_a_key_changes_and_rests_for_reasons_of_the_key_only(cause):
    of_the_key = {Family.AUTH, Family.BILLING, Family.RATE}
    if CAUSES[cause].family not in of_the_key or cause in {
        Cause.QUOTA_EXHAUSTED,
        Cause.SUBSCRIPTION_REQUIRED,
    }:
        assert Action.ROTATE_KEY not in plan_of(cause)
        assert decide(error(cause), RICH).key_cooldown_s == 0


@pytest.mark.parametrize(
    ("cause", "situation", "action"),
    [
        (Cause.INVALID_KEY, RICH, Action.ROTATE_KEY),
        (Cause.INVALID_KEY, Situation(fallbacks_left=1), Action.FALL_BACK),
        (Cause.INVALID_KEY, Situation(), Action.GIVE_UP),
        (Cause.RATE_LIMITED, RICH, Action.ROTATE_KEY),
        (Cause.RATE_LIMITED, Situation(fallbacks_left=1), Action.FALL_BACK),
        (Cause.RATE_LIMITED, Situation(), Action.RETRY),
        (Cause.OVERLOADED, RICH, Action.FALL_BACK),
        (Cause.OVERLOADED, Situation(keys_left=1), Action.RETRY),
        (Cause.STREAM_TRUNCATED, Situation(), Action.RETRY),
        (Cause.EMPTY_STREAM, RICH, Action.RETRY),
        (
            Cause.EMPTY_STREAM,
            Situation(fallbacks_left=1, done=frozenset({Action.RETRY})),
            Action.FALL_BACK,
        ),
        (Cause.EMPTY_STREAM, Situation(done=frozenset({Action.RETRY})), Action.RETRY),
        (Cause.MODEL_NOT_FOUND, RICH, Action.FALL_BACK),
        (Cause.CONNECTION_REFUSED, RICH, Action.FALL_BACK),
        (Cause.CONTEXT_OVERFLOW, RICH, Action.TRIM_HISTORY),
        (Cause.CONTEXT_OVERFLOW, Situation(done=frozenset({Action.TRIM_HISTORY})), Action.GIVE_UP),
        (Cause.INVALID_REQUEST, RICH, Action.GIVE_UP),
        (Cause.CONTENT_FILTER, RICH, Action.GIVE_UP),
        (Cause.DATA_POLICY, RICH, Action.GIVE_UP),
        (Cause.SUBSCRIPTION_REQUIRED, RICH, Action.GIVE_UP),
        (Cause.WORKER_LOST, RICH, Action.RETRY),
        (Cause.INTERNAL_ERROR, RICH, Action.GIVE_UP),
        (Cause.INSUFFICIENT_BALANCE, RICH, Action.ROTATE_KEY),
    ],
)
def test_the_first_step_that_is_open(cause, situation, action):
    assert decide(error(cause), situation).action is action


def test_output_is_lowered_to_what_the_balance_pays_and_once():
    failed = error(Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS, affordable_tokens=77)
    first = decide(failed, RICH)
    assert (first.action, first.max_tokens, first.key_cooldown_s) == (
        Action.LOWER_MAX_TOKENS,
        77,
        0,
    )
    again = decide(failed, Situation(keys_left=1, done=frozenset({Action.LOWER_MAX_TOKENS})))
    assert (again.action, again.max_tokens) == (Action.ROTATE_KEY, None)


def test_each_refused_parameter_is_left_out_once():
    failed = error(Cause.INVALID_REQUEST, parameter="top_p")
    assert decide(failed, RICH).parameter == "top_p"
    done = frozenset({Action.DROP_PARAMETER})
    other = Situation(done=done, without=frozenset({"temperature"}))
    assert decide(failed, other).parameter == "top_p"
    same = Situation(done=done, without=frozenset({"top_p"}))
    assert decide(failed, same).action is Action.GIVE_UP


def test_shown_text_is_superseded_or_stays():
    failed = error(Cause.OVERLOADED)
    assert decide(failed, Situation(emitted=True)).supersedes
    assert not decide(failed, Situation(emitted=False)).supersedes
    kept = decide(failed, Situation(emitted=True, may_supersede=False))
    assert (kept.action, kept.supersedes) == (Action.GIVE_UP, False)


def test_attempts_end():
    assert decide(error(Cause.OVERLOADED), Situation(attempt=MAX_ATTEMPTS)).action is Action.GIVE_UP


@pytest.mark.parametrize(
    ("attempt", "hint", "jitter", "delay"),
    [
        (1, None, 0.0, 1.0),
        (2, None, 0.0, 2.0),
        (3, None, 1.0, 6.0),
        (1, 5.0, 0.0, 5.0),
        (1, 0.0, 1.0, 0.5),
    ],
)
def test_delay_before_a_retry(attempt, hint, jitter, delay):
    failed = error(Cause.RATE_LIMITED, retry_after_s=hint)
    assert decide(failed, Situation(attempt=attempt), jitter=jitter).delay_s == delay


def test_a_person_does_not_wait_for_a_long_hint():
    failed = error(Cause.RATE_LIMITED, retry_after_s=MAX_WAIT_S + 1)
    decision = decide(failed, Situation())
    assert (decision.action, decision.delay_s) == (Action.GIVE_UP, 0)
    assert decision.key_cooldown_s == MAX_WAIT_S + 1


@pytest.mark.parametrize(
    ("cause", "hint", "seconds"),
    [
        (Cause.RATE_LIMITED, None, KEY_COOLDOWN_S[Family.RATE]),
        (Cause.RATE_LIMITED, 7.0, 7.0),
        (Cause.DAILY_QUOTA_EXHAUSTED, 20.0, DAY_COOLDOWN_S),
        (Cause.INVALID_KEY, 7.0, KEY_COOLDOWN_S[Family.AUTH]),
        (Cause.INSUFFICIENT_BALANCE, None, KEY_COOLDOWN_S[Family.BILLING]),
        (Cause.CONTEXT_OVERFLOW, None, 0.0),
    ],
)
def test_how_long_a_key_rests(cause, hint, seconds):
    assert decide(error(cause, retry_after_s=hint), RICH).key_cooldown_s == seconds


def test_a_cause_of_a_newer_version_gets_the_plan_of_an_internal_error():
    assert plan_of("from_the_future") == PLANS[Family.INTERNAL]
    assert set(OWN_PLANS) <= set(Cause)
