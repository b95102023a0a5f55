"""docs/limits.md is what the numbers in the source say."""

import pytest

from tests.support.limits_page import (
    LEFT_OUT,
    NO_LIMITS,
    PACKAGES,
    PAGE,
    ROOT,
    Limit,
    limits_of,
    numbers_of,
    page,
    shown,
)

PLACES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)
]


def test_the_page_of_limits_is_what_the_source_says():
    fresh = "write it anew: python -m tests.support.limits_page"
    assert PAGE.read_text(encoding="utf-8") == page(), fresh


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("LEASE_MS", 6_000, "6 s"),
        ("WIDEN_MS", 150, "150 ms"),
        ("LOOK_S", 0.5, "0.5 s"),
        ("RATE_PER_S", 5.0, "5 a second"),
        ("NARROW_MS_PER_S", 10, "10 ms a second"),
        ("PER_MINUTE", 10, "10 a minute"),
        ("RING_BYTES", 64 * 1024 * 1024, "64 MiB"),
        ("MAX_TEXT_CHARS", 4_000, "4,000 characters"),
        ("CRASH_DELAYS_MS", (0, 5_000, 30_000), "0 ms, 5 s, 30 s"),
        ("ToolLimits.call_s", 60.0, "1 min"),
        ("ToolLimits.rounds", 10, "10"),
    ],
)
def test_a_number_is_shown_with_the_unit_of_its_name(name: str, value: float, words: str):
    assert shown(Limit(name=name, value=value, reason="...")) == words


def test_what_is_left_out_is_there_to_be_left_out():
    there = {number.name for path in PLACES for number in numbers_of(path)}
    assert {name for names in NO_LIMITS.values() for name in names} <= there


def test_fields_and_sequences_are_limits_and_codes_are_none():
    names = {limit.name for path in PLACES for limit in limits_of(path)}
    assert {"ToolLimits.rounds", "TrafficPolicy.open_ms", "Limits.body", "CRASH_DELAYS_MS"} <= names
    assert not names & {"NO_PERMISSION", "PORT", "DIRECTORY_MODE", "NOBODY", "Exit.MISSING"}
