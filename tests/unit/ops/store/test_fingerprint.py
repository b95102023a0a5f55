"""Fingerprints: one repair, one group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.store.fingerprint import ACTED_ON, NORMAL_CHARS, fingerprint, group_hash, normalized
from shared.causes import Family
from shared.failures import ErrorReport, ReportCategory
from tests.support.reports import a_report

RATE_A = (
    "Rate limit reached for gpt-5 in organization org-abc123def on tokens per min: "
    "Limit 30000, Used 29811, Requested 1200. Please try again in 2.022s."
)
RATE_B = (
    "Rate limit reached for gpt-5 in organization org-zzz999aaa on tokens per min: "
    "Limit 30000, Used 30000, Requested 88. Please try again in 176ms."
)
STACK = """Traceback (most recent call last):
  File "/srv/a/worker/turn.py", line {line}, in run
    await step()
  File "/srv/a/worker/outbox.py", line {line}, in {function}
    raise {error}("{text}")
{error}: {text}
"""


def other(message: str, **more: object) -> ErrorReport:
    return a_report(error_type="unheard_of", message=message, **more)


def internal(line: int, function: str = "send", error: str = "KeyError", text: str = "x"):
    stack = STACK.format(line=line, function=function, error=error, text=text)
    return a_report(category=ReportCategory.INTERNAL, error_type="uncaught", stack_trace=stack)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        pytest.param(
            a_report(error_type="rate_limited", message=RATE_A),
            a_report(error_type="rate_limited", message=RATE_B),
            id="messages_that_differ_in_numbers",
        ),
        pytest.param(other(RATE_A), other(RATE_B), id="also_when_the_cause_is_unknown"),
        pytest.param(
            other("bad thing req_011AbcDEf at 10.0.0.1:443 after 31s"),
            other("bad thing req_999XyzQQQ at 10.9.8.7:8443 after 2s"),
            id="ids_addresses_spans",
        ),
        pytest.param(
            a_report(
                guild_id=1, turn_id="m1", worker_id="a", model="m1", error_type="server_error"
            ),
            a_report(
                guild_id=2, turn_id="m2", worker_id="b", model="m2", error_type="server_error"
            ),
            id="who_was_hit",
        ),
        pytest.param(
            internal(10, text="guild 1 of 7"), internal(99, text="guild 3 of 9"), id="line_numbers"
        ),
    ],
)
def test_one_cause(one: ErrorReport, two: ErrorReport):
    assert group_hash(one) == group_hash(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        pytest.param(
            a_report(error_type="rate_limited"),
            a_report(error_type="insufficient_balance"),
            id="a_quota_is_no_rate_limit",
        ),
        pytest.param(a_report(key_id="a"), a_report(key_id="b"), id="two_keys"),
        pytest.param(
            a_report(error_type="model_not_found", model="a"),
            a_report(error_type="model_not_found", model="b"),
            id="two_models",
        ),
        pytest.param(a_report(provider="a"), a_report(provider="b"), id="two_providers"),
        pytest.param(a_report(stage="a"), a_report(stage="b"), id="two_stages"),
        pytest.param(
            a_report(provider="custom", endpoint_host="a"),
            a_report(provider="custom", endpoint_host="b"),
            id="two_custom_endpoints",
        ),
        pytest.param(other("no such tool"), other("no such user"), id="two_unknown_messages"),
        pytest.param(
            other("x", provider_code="a"), other("x", provider_code="b"), id="two_unknown_codes"
        ),
        pytest.param(internal(1, function="a"), internal(1, function="b"), id="two_functions"),
        pytest.param(
            internal(1, error="KeyError"), internal(1, error="ValueError"), id="two_exceptions"
        ),
        pytest.param(
            a_report(category=ReportCategory.INTERNAL, message="a b"),
            a_report(category=ReportCategory.INTERNAL, message="a c"),
            id="internal_without_stack",
        ),
    ],
)
def test_two_causes(one: ErrorReport, two: ErrorReport):
    assert group_hash(one) != group_hash(two)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("See https://a.example/x?y=1 now", "see <url> now"),
        ("user a.b@example.com", "user <email>"),
        ("id 01234567-89ab-cdef-0123-456789abcdef", "id <uuid>"),
        ("at 2026-05-01T10:11:12.345Z", "at <time>"),
        ("host 10.1.2.3:8080", "host <ip>"),
        ("commit 0123abcd", "commit <hex>"),
        ("after 1.5 seconds", "after <span>"),
        ("used 1,234 of 90%", "used <n> of <n>"),
        ("a\n\t b", "a b"),
        ("decade", "decade"),
        ("gpt-5", "gpt-<n>"),
    ],
)
def test_what_varies_gets_a_placeholder(message: str, expected: str):
    assert normalized(message) == expected


@given(st.text())
def test_normalizing_ends_and_is_bounded(text: str):
    assert len(normalized(text * 50)) <= NORMAL_CHARS * 3


def test_every_family_of_causes_says_what_is_acted_on():
    assert set(ACTED_ON) == set(Family)
    fields = set(ErrorReport.__struct_fields__)
    assert all(name in fields for names in ACTED_ON.values() for name in names)


def test_a_hash_has_32_hex_digits_and_takes_any_text():
    assert len(group_hash(other("\ud800", provider_code="\0"))) == 32
    assert fingerprint(a_report())[0] == "turnfleet1"
