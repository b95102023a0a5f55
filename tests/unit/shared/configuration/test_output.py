import time

import pytest

from shared.configuration.output import (
    MATCH_LIMIT_S,
    OutputAction,
    OutputRule,
    Rulebook,
    complaint,
)


def rule(pattern: str, action: str = "replace", replacement: str = "[…]") -> OutputRule:
    is_replace = action == "replace"
    return OutputRule(
        name=pattern,
        pattern=pattern,
        action=OutputAction(action),
        replacement=replacement if is_replace else "",
    )


EMAIL = rule(r"[\w.]+@[\w.]+\.\w+", replacement="(address)")

CASES = {
    "nothing matches": ([EMAIL], "no address here", "no address here", 0),
    "a match is put otherwise": ([EMAIL], "ask ann@host.org now", "ask (address) now", 1),
    "every match of a segment": ([EMAIL], "a@b.co, c@d.co", "(address), (address)", 1),
    "case does not count": ([rule("project x")], "about PROJECT X", "about […]", 1),
    "a replacement is literal": (
        [rule("(a)(b)", replacement=r"\2\1")],
        "ab",
        r"\2\1",
        1,
    ),
    "a block withholds": ([rule("secret", "block")], "the secret plan", None, 1),
    "nothing is asked after a block": (
        [rule("secret", "block"), rule("plan", "report")],
        "the secret plan",
        None,
        1,
    ),
    "a report changes nothing": ([rule("plan", "report")], "the plan", "the plan", 1),
    "a later rule sees what an earlier one replaced": (
        [rule("cat", replacement="dog"), rule("dog", "block")],
        "a cat",
        None,
        2,
    ),
}


@pytest.mark.parametrize(("rules", "text", "shown", "matched"), CASES.values(), ids=CASES.keys())
def test_rules_in_order(rules: list[OutputRule], text: str, shown: str | None, matched: int):
    judgement = Rulebook(rules).judge(text)
    assert (judgement.text, len(judgement.matched)) == (shown, matched)


@pytest.mark.parametrize(("action", "shown"), [("block", None), ("report", "a" * 1900 + "!")])
def test_a_pattern_that_would_take_for_ever_ends_in_time(action: str, shown: str | None):
    endless = rule("(a|aa|a?)+$", action)
    began_s = time.monotonic()
    judgement = Rulebook([endless]).judge("a" * 1900 + "!")
    assert time.monotonic() - began_s < 100 * MATCH_LIMIT_S
    assert judgement.text == shown


@pytest.mark.parametrize(
    ("pattern", "says"), [("(", "no regular expression"), ("a*", "matches every text")]
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, says: str):
    assert says in str(complaint(rule(pattern)))
    assert complaint(EMAIL) is None
