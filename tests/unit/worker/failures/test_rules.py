"""Every rule in both directions, and the order in which they are asked."""

from collections import Counter

import pytest

from shared.causes import Cause
from shared.failures import ProviderFault
from worker.failures.classify import OWN_CODES
from worker.failures.facts import Facts
from worker.failures.rule import Rule
from worker.failures.rules import RULES

IDS = [f"{number}-{rule.cause}" for number, rule in enumerate(RULES)]
ELSEWHERE = {
    # no body: a connection, a stream of ours, our own doing
    Cause.CONNECTION_REFUSED, Cause.CONNECTION_LOST, Cause.NETWORK_TIMEOUT, Cause.UPSTREAM_ERROR,
    Cause.PROMPT_BLOCKED, Cause.QUOTA_EXHAUSTED, Cause.SUBSCRIPTION_REQUIRED, Cause.INTERNAL_ERROR,
    Cause.WORKER_LOST, Cause.ENDPOINT_NOT_ALLOWED, *OWN_CODES,
}  # fmt: skip


def facts(example: str) -> Facts:
    """`<status> <body>` as facts."""
    status, body = example.split(" ", 1)
    return Facts(ProviderFault(provider="custom", status=int(status), body=body))


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_decides_its_example(rule: Rule):
    found = facts(rule.yes)
    assert next(one for one in RULES if one.matches(found)) is rule


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_leaves_the_close_example_alone(rule: Rule):
    assert not rule.matches(facts(rule.no))


def test_every_cause_is_reached_by_a_rule_or_found_elsewhere():
    assert {rule.cause for rule in RULES} | ELSEWHERE == set(Cause)
    assert not {rule.cause for rule in RULES} & ELSEWHERE


def test_examples_differ():
    assert max(Counter(rule.yes for rule in RULES).values()) == 1
