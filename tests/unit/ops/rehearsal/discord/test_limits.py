"""The fake's rate limits: steady, honest, and in agreement with themselves."""

import pytest

from ops.rehearsal.discord.limits import Limits, Rates


def test_a_burst_passes_and_the_next_is_told_how_long_to_wait():
    limits = Limits(Rates())
    remaining = [limits.judge("a", 100.0).remaining for _ in range(5)]
    assert remaining == [4, 3, 2, 1, 0]
    refused = limits.judge("a", 100.0)
    assert not refused.passes
    assert refused.retry_after_s == pytest.approx(1.0)
    assert not limits.judge("a", 100.9).passes
    assert limits.judge("a", 101.0).passes


def test_who_waits_as_told_always_passes():
    limits = Limits(Rates(global_per_s=1000))
    now_s = 0.0
    for _ in range(200):
        verdict = limits.judge("a", now_s)
        if not verdict.passes:
            now_s += verdict.retry_after_s
            assert limits.judge("a", now_s).passes


def test_a_bucket_that_rests_is_full_again():
    limits = Limits(Rates())
    for _ in range(5):
        limits.judge("a", 0.0)
    rested = limits.judge("a", 60.0)
    assert rested.remaining == 4
    assert rested.reset_after_s == pytest.approx(1.0)


def test_buckets_do_not_share():
    limits = Limits(Rates())
    for _ in range(5):
        limits.judge("a", 0.0)
    assert limits.judge("b", 0.0).passes


def test_a_token_has_fifty_requests_a_second():
    limits = Limits(Rates())
    verdicts = [limits.judge(str(number), 10.0) for number in range(51)]
    assert all(verdict.passes for verdict in verdicts[:50])
    assert verdicts[50].is_global
    assert verdicts[50].retry_after_s == pytest.approx(1.0)
    assert limits.judge("51", 11.0).passes
