"""Calls in prose: where they count, what is held, and what stays text."""

import time

import pytest

from tests.support.chunks import show, tool
from worker.chunks.call_syntax import MAX_CALL_CHARS
from worker.chunks.pieces import merged
from worker.chunks.tool_dialects import DIALECTS
from worker.chunks.verbatim_calls import HOLD_S, MAX_TICKS, STALL_S, VerbatimCallParser

TOOLS = [
    tool("roll", sides="integer"),
    tool("search", ["query"], query="string", exact="boolean"),
    tool("t", ["a"], a="string"),
]
ROLL = "[roll {} ok]"
ROLL_6 = "[roll {'sides': 6} ok]"


def parse(text: str, *, dropping: bool = False) -> str:
    """Feeds the deltas between the bars; calls come out in brackets. Every cutting must agree."""
    seen = set()
    for deltas in (text.split("¦"), [text.replace("¦", "")], list(text.replace("¦", ""))):
        parser = VerbatimCallParser(TOOLS)
        pieces = [piece for delta in deltas for piece in parser.feed(delta)]
        seen.add(show(merged([*pieces, *parser.flush(dropping=dropping)])))
    assert len(seen) == 1
    return seen.pop()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Fine. ¦roll(¦{\"sides\": 6}¦) then", f"Fine. {ROLL_6} then"),
        ("roll()", ROLL),
        ("roll  (sides=6)", ROLL_6),
        ("roll() and roll()", f"{ROLL} and {ROLL}"),
        ("`roll()`", ROLL),
        ("``roll()`` ok", f"{ROLL} ok"),
        ("```roll()```", ROLL),
        ("```json\nroll()\n```\nok", f"{ROLL}\nok"),
        ("```\nroll()\nroll({\"sides\":6})\n```", f"{ROLL}{ROLL_6}"),
        ("````\nroll()\n````", ROLL),
        ('```tool\n<tool_call>{"name": "roll"}</tool_call>\n```', ROLL),
        ("`roll()", ROLL),
        ("```\nroll()", ROLL),
        ("```\nroll()\n``", ROLL),
    ],
)  # fmt: skip
def test_a_call_counts(text, shown):
    assert parse(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "generate (it makes art)",
        "roll (it makes art)",
        "roll         (sides=6)",
        "en¦roll() and dice.¦roll()",
        "enroll() and dice.roll() and _roll()",
        "roll is a name, and so is search",
        "```python\nx = roll()\n```",
        "```\nroll()\nx = 1\n```\nok",
        "```\nroll(¦{\"sides\"",
        "`x = roll()` ok",
        "`roll()``",
        "``roll()` x",
        "`roll() and more` roll",
        "``` and roll",
        "`` ` ``",
        "``",
        "```py",
        "<tool_call>{\"name\": \"unknown\"}</tool_call>",
        "<tool_call> is a tag",
        "<tool_call><tool_call>",
        '<tool_call>{"name": <tool_call>',
        "a <tool",
        "roll",
    ],
)  # fmt: skip
def test_what_is_text_stays(text):
    if text.endswith('{"sides"'):
        assert parse(text) == "[roll {} truncated]"
    else:
        assert parse(text) == text.replace("¦", "")


def test_text_after_code_is_looked_at_again():
    assert parse("`x` roll()") == f"`x` {ROLL}"
    assert parse("`x\nroll()") == f"`x\n{ROLL}"
    assert parse("```\nx\n```\nroll()") == f"```\nx\n```\n{ROLL}"


@pytest.mark.parametrize(
    ("text", "shown", "dropped"),
    [
        ('go roll({"sides": 6, "x', "go [roll {'sides': 6} truncated]", "go "),
        ("go `roll({", "go [roll {} truncated]", "go "),
        ("```\nroll()\nroll({", f"{ROLL}[roll {{}} truncated]", ""),
        ('<tool_call>{"name": "roll", "arg', "[roll {} truncated]", ""),
        ('<tool_call>{"name": "roll"}', ROLL, ""),
        ('<tool_call>[{"name": "roll"}, {"name": "roll"}]\n', ROLL * 2, ""),
        ('<tool_call>{"name": "roll", "arguments": "{"}', "[roll {} truncated]", ""),
        ('<tool_call>{"name": "no"}', '<tool_call>{"name": "no"}', '<tool_call>{"name": "no"}'),
        ('<tool_call>{"na', '<tool_call>{"na', '<tool_call>{"na'),
        ("roll(", "roll(", "roll("),
    ],
)
def test_a_call_that_the_end_cuts(text, shown, dropped):
    assert parse(text) == shown
    assert parse(text, dropping=True) == dropped


def test_a_candidate_over_the_limit_is_text_complete_or_not():
    for end in ('"})', '"'):
        text = 'search({"query": "' + "x" * MAX_CALL_CHARS + end
        assert parse(text) == text
    markup = '<tool_call>{"name": "roll"' + " " * MAX_CALL_CHARS + "}</tool_call>"
    assert parse(markup) == markup


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def test_a_dialect_reads_its_example_and_leaves_the_other(dialect):
    assert parse(f"A {dialect.yes} b") == "A [t {'a': 'x'} ok] b"
    assert parse(f"A {dialect.no} b") == f"A {dialect.no} b"


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def test_a_dialect_that_the_end_cuts_is_refused(dialect):
    cut = dialect.yes[: dialect.yes.rindex("x") + 1]
    assert parse(cut) == "[t {} truncated]"


def test_a_name_is_held_for_a_while():
    parser = VerbatimCallParser(TOOLS)
    assert show(parser.feed("let me sea")) == "let me "
    assert parser.tick(1.0) == []
    assert show(parser.tick(1.0 + HOLD_S)) == "sea"
    assert show(parser.feed("rch()")) == "rch()"


def test_a_call_that_goes_on_is_held_and_one_that_stalls_is_not():
    parser = VerbatimCallParser(TOOLS)
    parser.feed('search({"query": "')
    now_s = 0.0
    for _ in range(10):
        assert parser.tick(now_s) == []
        now_s += STALL_S - 1
        parser.feed("x")
    assert parser.tick(now_s) == []
    assert show(parser.tick(now_s + STALL_S)) == 'search({"query": "' + "x" * 10
    assert parser.tick(999.0) == []


def test_an_orphan_closer_takes_what_is_held():
    parser = VerbatimCallParser(TOOLS)
    parser.feed("a roll({")
    assert parser.retract() == "roll({"
    assert show(parser.feed("roll()")) == ROLL


def test_without_tools_only_markup_is_looked_for_and_nothing_is_found():
    parser = VerbatimCallParser([])
    text = 'roll() <tool_call>{"name": "roll"}</tool_call> <tool_code>roll()</tool_code>'
    assert show(parser.feed(text + " ") + parser.flush()) == text + " "


UNITS = ["roll(", "search(query='", "`", "` x ", "<tool_call>", 'search({"query": "a']


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("delta", [9, 10**6])
def test_time_grows_with_the_text_and_no_faster(unit, delta):
    def seconds(chars: int) -> float:
        text = (unit * chars)[:chars]
        best = float("inf")
        for _ in range(2):
            parser = VerbatimCallParser(TOOLS)
            begin = time.process_time()
            for at in range(0, chars, delta):
                parser.feed(text[at : at + delta])
            parser.flush()
            best = min(best, time.process_time() - begin)
        return best

    # Both are longer than the longest candidate, within which time may be a square.
    assert seconds(48 * 1024) < 8 * seconds(12 * 1024) + 0.02


LONG_RUN = "`" * (MAX_TICKS + 5)


@pytest.mark.parametrize(
    "text",
    [
        LONG_RUN,
        f"{LONG_RUN} roll() {LONG_RUN}",
        f"` roll() {LONG_RUN} roll()",
        f"a {LONG_RUN}\nroll()\n```",
    ],
    ids=["alone", "a fence", "no end of inline code", "closed by three"],
)
def test_a_long_run_of_backticks_is_around_no_call(text):
    assert parse(text) == text
    assert parse(f"{LONG_RUN} x {LONG_RUN} roll()") == f"{LONG_RUN} x {LONG_RUN} {ROLL}"


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
@pytest.mark.parametrize("prose", [" tag of a model", "` is a tag", "\n\nis it", "(x) and", "<b>x"])
def test_markup_that_is_only_named_is_given_out_at_once(dialect, prose):
    parser = VerbatimCallParser(TOOLS)
    text = f"The {dialect.opens}{prose}, "
    assert show(parser.feed(text)) == text
    assert show(parser.feed('as in {"name": "roll"}.')) == 'as in {"name": "roll"}.'
