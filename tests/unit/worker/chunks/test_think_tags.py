"""Reasoning in visible text: which tags count, which are text, what is held and for how long."""

import time

import pytest

from tests.support.chunks import show
from worker.chunks.harmony import MAX_BODY_CHARS
from worker.chunks.pieces import merged
from worker.chunks.think_tags import HOLD_S, MAX_NAME_CHARS, MAX_TAG_CHARS, ThinkTagStripper

FINAL = "<|start|>assistant<|channel|>final<|message|>"


def strip(text: str) -> str:
    """Feeds the deltas between the bars `¦`; reasoning comes out in braces."""
    tags = ThinkTagStripper()
    pieces = [piece for delta in text.split("¦") for piece in tags.feed(delta)]
    return show(merged([*pieces, *tags.flush()]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <thi¦nk>x</th¦ink>y", "a {x}y"),
        ("<THINK>x</Think>y", "{x}y"),
        ("<thinking>h</thinking>hi", "{h}hi"),
        ("<thought>h</thought><reasoning>r</reasoning>", "{hr}"),
        ("<mm:think>x</mm:think>y", "{x}y"),
        ('<think lang="en" depth=2>x</think>y', "{x}y"),
        ("<think/>y<think />", "y"),
        ("<think>a<think>b</think>¦c¦</think>d", "{abc}d"),
        ("<think>a < b</think>c", "{a < b}c"),
        ("<think>open to the end", "{open to the end}"),
        ("Sorry >_<", "Sorry >_<"),
        ("List<String", "List<String"),
        ("<details>kept</details>", "<details>kept</details>"),
        ("a < b and <thinker> too", "a < b and <thinker> too"),
        ("<|im_end|> stays", "<|im_end|> stays"),
    ],
    ids=["cut tags", "any case", "thinking", "other names", "namespace", "attributes", "empty tags",
         "nested", "bracket in it", "unclosed", "trailing bracket", "trailing word", "other tags",
         "no tags", "other tokens"],
)  # fmt: skip
def test_tags(text, shown):
    assert strip(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use `<think>` here", "use `<think>` here"),
        ("use `` a `<think>` b `` here", "use `` a `<think>` b `` here"),
        ("```\n<think>\n```\nafter", "```\n<think>\n```\nafter"),
        ("a ` tick <think>x</think>b", "a ` tick {x}b"),
        ("a `b\nc <think>` ok", "a `b\nc <think>` ok"),
        ("a ` tick\n\n`<think>` ok", "a ` tick\n\n`<think>` ok"),
        ("a `<think>x\n\nb`", "a `{x\n\nb`}"),
        ("<think>use ` one</think>two", "{use ` one}two"),
        ("`<think\n a>` b", "`<think\n a>` b"),
        ("`<th¦ink>¦` ok", "`<think>` ok"),
    ],
    ids=["inline", "double", "fence", "stray tick", "line end", "paragraph", "never closed",
         "ticks in reasoning", "line end in a literal tag", "cut"],
)  # fmt: skip
def test_code_protects(text, shown):
    assert strip(text) == shown


def test_an_undecided_tick_is_held_for_a_while_then_the_tag_counts():
    tags = ThinkTagStripper()
    assert show(tags.feed("a `<think>" + "x" * 150)) == "a `"
    assert show(tags.feed("x" * 30)).startswith("{")


@pytest.mark.parametrize(
    ("text", "shown", "orphans"),
    [
        ("x</think>y", "{x}y", 1),
        ("early ¦leak</think>y", "early {leak}y", 1),
        ("early ¦</think>y", "early y", 1),
        ("a<think>b</think>c</think>d", "a{bc}d", 1),
        ("</think></think>y", "y", 2),
    ],
    ids=["start", "given out stays", "nothing held", "since the last tag", "twice"],
)
def test_a_closer_without_an_opener(text, shown, orphans):
    tags = ThinkTagStripper()
    pieces = [piece for delta in text.split("¦") for piece in tags.feed(delta)]
    assert (show(merged([*pieces, *tags.flush()])), tags.orphans) == (shown, orphans)


def test_a_closer_tells_later_guards_to_give_up_what_they_hold():
    tags = ThinkTagStripper()
    seen = []
    for delta in ("held", "</think>", "<think>a</think>b</think>"):
        tags.feed(delta)
        seen.append(tags.reaches_back)
    assert seen == [False, True, False]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hello <think>x</think> world", "Hello {x}world"),
        ("Hello<think>x</think> world", "Hello{x} world"),
        ("<think>x</think>\n\n Hi", "{x}Hi"),
        ("a\n<think>x</think>\n\nb", "a\n{x}\nb"),
        ("a\n\n<think>x</think>\n¦\nb", "a\n\n{x}b"),
        ("a <think>x</think>\nb", "a {x}\nb"),
        ("a<think>x</think>¦  ¦<think>y</think> b", "a{x}  {y}b"),
        ("\n<think>x</think> \n\n b", "\n{x}b"),
    ],
)
def test_of_the_white_space_around_a_block_the_larger_side_stays(text, shown):
    assert strip(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"<|channel|>analysis<|message|>hm<|end|>{FINAL}Hi", "{hm}Hi"),
        ("<|start|>assistant<|message|>Hi<|return|>", "Hi"),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>ok", "{{}}ok"),
        ("<|chan¦nel|>fin¦al<|message|>a <think>b</think>c", "a {b}c"),
        ("the token <|start|> begins it", "the token  begins it"),
        ("<|start|>assi¦stant, he said", "assistant, he said"),
        ("<|start|>tool<b>", "tool<b>"),
        ("<|start|>tool<think>x</think>y", "tool{x}y"),
        ("<|channel|>" + " final" * 40, " final" * 40),
        ("<|channel>thou¦ght\nhm<channel|>Hi", "{\nhm}Hi"),
        ("`<|channel|>` is code", "`<|channel|>` is code"),
        ("<|channel|>final<|message|>```\n<|end|>\n```", "```\n<|end|>\n```"),
    ],
    ids=["reasoning then answer", "no channel", "a call", "cut", "no header", "no header, late",
         "no header, tag", "no header, block",
         "long header", "Gemma",
         "in code", "in a fence"],
)  # fmt: skip
def test_harmony_channels(text, shown):
    assert strip(text) == shown


def test_counts():
    tags = ThinkTagStripper()
    tags.feed("<think>a</think><think>b")
    tags.flush()
    assert (tags.stripped, tags.unclosed) == (1, True)


@pytest.mark.parametrize(
    ("start", "limit"),
    [("<x", MAX_NAME_CHARS), ("<think a", MAX_TAG_CHARS)],
    ids=["name", "attributes"],
)
def test_a_partial_tag_is_held_up_to_a_bound(start, limit):
    tags = ThinkTagStripper()
    held = start + "x" * (limit - len(start) - 1)
    assert tags.feed(held) == []
    assert show(tags.feed("y")) == held + "y"


def test_a_hold_ends_by_tick():
    tags = ThinkTagStripper()
    tags.feed("a <thi")
    assert tags.tick(5.0) == []
    assert tags.tick(5.0 + HOLD_S - 0.1) == []
    assert show(tags.tick(5.0 + HOLD_S)) == "<thi"
    assert tags.tick(99.0) == []


def test_a_new_hold_has_time_of_its_own():
    tags = ThinkTagStripper()
    tags.feed("<thi")
    tags.tick(0.0)
    tags.feed("ng> <th")
    assert tags.tick(HOLD_S) == []
    assert show(tags.tick(2 * HOLD_S)) == "<th"


UNITS = [
    "<",
    "`",
    "<think>",
    "</think>",
    "`<think>",
    "<think ",
    "<|channel|>",
    "\n`",
    "``` `",
    "<a:",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("delta", [3, 10**6])
def test_time_grows_with_the_text_and_no_faster(unit, delta):
    def seconds(chars: int) -> float:
        text = (unit * chars)[:chars]
        best = float("inf")
        for _ in range(2):
            tags = ThinkTagStripper()
            begin = time.process_time()
            for at in range(0, chars, delta):
                tags.feed(text[at : at + delta])
            tags.flush()
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(16 * 1024) < 8 * seconds(4 * 1024) + 0.02  # a square would give 16


EARLY = "<|start|>assistant to=functions.roll<|channel|>commentary<|message|>"
CALL = "<|channel|>commentary to=functions.roll <|constrain|>json<|message|>"


@pytest.mark.parametrize(
    ("text", "shown", "dropped"),
    [
        (CALL + '{"sides": 6}<|call|>ok', "[roll {'sides': 6} ok]ok", None),
        ("<|start|>assistant" + CALL + "{}<|call|>", "[roll {} ok]", None),
        (EARLY + "{}<|end|>", "[roll {} ok]", None),
        (CALL + '{"a": "<think>"}<|call|>', "[roll {'a': '<think>'} ok]", None),
        (CALL + '{"sides": [<|call|>', "[roll {} truncated]", None),
        (CALL + '{"sides": ;}<|call|>', "[roll {} invalid]", None),
        (CALL + '{"a": 1, "sides": 6', "[roll {'a': 1} truncated]", ""),
        (CALL + '{"sides": 6}', "[roll {'sides': 6} truncated]", ""),
        (CALL.replace("roll", "other") + "{}<|call|>", "{{}}", None),
        (CALL + "x" * MAX_BODY_CHARS + "y<|call|>z", "{" + "x" * MAX_BODY_CHARS + "y}z", None),
    ],
    ids=["call", "start and channel", "recipient first", "a tag in it", "cut inside", "invalid",
         "cut by the end", "no end token", "not exposed", "too long"],
)  # fmt: skip
def test_harmony_calls(text, shown, dropped):
    for deltas in ([text], list(text)):
        for dropping, expected in ((False, shown), (True, shown if dropped is None else dropped)):
            tags = ThinkTagStripper(["roll"])
            pieces = [piece for delta in deltas for piece in tags.feed(delta)]
            assert show(merged([*pieces, *tags.flush(dropping=dropping)])) == expected


def test_a_call_stays_a_call_before_an_orphan_closer():
    tags = ThinkTagStripper(["roll"])
    assert show(tags.feed(CALL + "{}<|call|></think>x")) == "[roll {} ok]x"
    assert show(tags.feed("a</think>")) == "{a}"
