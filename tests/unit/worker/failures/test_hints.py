"""When a provider wants to hear of us again, however it says so."""

import pytest

from shared.failures import ProviderFault
from worker.failures.classify import classify

NOW_S = 1_772_366_400.0  # 2026-03-01T12:00:00Z
DATE = "Sun, 01 Mar 2026 12:00:30 GMT"


def hint(body: str = "", **headers: str) -> float | None:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    fault = ProviderFault(provider="x", status=429, headers=fields, body=body, now_s=NOW_S)
    return classify(fault).retry_after_s


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "30"}, 30.0),
        ({"Retry_After": "1.5"}, 1.5),
        ({"retry_after": " 7 "}, 7.0),
        ({"retry_after": DATE}, 30.0),
        ({"retry_after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry_after": "Sun, 01 Mar 2026 12:00:30"}, 30.0),
        ({"retry_after": "-5"}, 0.0),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "Sun, 99 Mar 2026 12:00:30 GMT"}, None),
        ({"retry_after_ms": "176", "retry_after": "30"}, 0.176),
        ({"retry_after_ms": "", "retry_after": "30"}, 30.0),
        ({"retry_after": ""}, None),
    ],
)
def test_hint_of_a_header(headers, seconds):
    assert hint(**headers) == seconds


def test_a_date_is_rounded_up():
    fault = ProviderFault(
        provider="x", status=429, headers=(("Retry-After", DATE),), now_s=NOW_S + 0.4
    )
    assert classify(fault).retry_after_s == 30.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 2.022s.", 2.022),
        ("Please try again in 176ms.", 0.176),
        ("Retry in 38 seconds", 38.0),
        ("try again in 1m30s", 90.0),
        ("try again in 2 minutes 5 seconds", 125.0),
        ("retry after 1h", 3600.0),
        ("try again in 20 milliseconds", 0.02),
        ("try again in a moment", None),
        ("retry in 5", None),
        ("the model has 30s left", None),
    ],
)
def test_hint_of_prose(text, seconds):
    assert hint(text) == (pytest.approx(seconds) if seconds is not None else None)


def test_the_header_comes_before_retry_info_and_that_before_prose():
    body = '{"error":{"details":[{"retryDelay":"38.523s"}],"message":"try again in 9s"}}'
    assert hint(body, retry_after="3") == 3.0
    assert hint(body) == 38.523
    assert hint(body.replace("38.523s", "later")) == 9.0


@pytest.mark.parametrize(("text", "tokens"), [("can only afford 7783", 7783), ("affords 5", None)])
def test_what_the_balance_still_pays(text, tokens):
    fault = ProviderFault(provider="x", status=402, body=text)
    assert classify(fault).affordable_tokens == tokens
