"""What others wrote, on our pages: shown, never obeyed."""

import re
import time
from datetime import UTC, datetime

import pytest

from ops.console.drawing import sparkline, timeline
from ops.console.render import CELL_CHARS, cell, discord, moment, plain, visible
from shared.edges.stories import Moment

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "`<b>`",
    "```\n</pre><script>alert(1)</script>\n```",
    "**<i onclick=x>**",
    "~~&lt;script&gt;~~",
    "-# <svg/onload=alert(1)>",
    "> <img src=x onerror=alert(1)>",
    '||" onmouseover=alert(1) x="||',
    "- __<b onclick=x>__",
]
TAGS = {"span", "pre", "code", "strong", "em", "s", "small", "u"}


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_message_is_text(text: str):
    shown = str(discord(text))
    assert set(re.findall(r"</?([^\s>/]+)", shown)) <= TAGS
    assert not re.search(r"<[^>]*\son\w+=", shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold** and *em*", "<strong>bold</strong> and <em>em</em>"),
        ("~~gone~~ `code`", "<s>gone</s> <code>code</code>"),
        (
            "`**a**` `__b__`",
            "<code>&#42;&#42;a&#42;&#42;</code> <code>&#95;&#95;b&#95;&#95;</code>",
        ),
        ("# Title\n-# small", "<strong>Title</strong>\n<small>small</small>"),
        ("- one\n  * *two*\n-3", "\u2022 one\n  \u2022 <em>two</em>\n-3"),
        ("> said\n__under__", '<span class="quote">said</span>\n<u>under</u>'),
        ("||no||", '<span class="spoiler" tabindex="0">no</span>'),
    ],
    ids=[
        "emphasis",
        "struck and code",
        "signs in code",
        "lines",
        "lists",
        "quote and line",
        "spoiler",
    ],
)
def test_a_message_looks_about_as_on_discord(text: str, shown: str):
    assert str(discord(text)) == f'<span class="prose">{shown}</span>'


def test_a_fence_stays_whole_and_its_language_is_not_shown():
    shown = str(discord("see\n```python\nx = 1\n```\ndone"))
    assert "<pre>x = 1</pre>" in shown
    assert "python" not in shown


@pytest.mark.parametrize(
    "sign", ["\x1b[2J", "\u202e", "\u2066", "\u200b", "\x00", "\x9b", "\u2028", "\ud800"]
)
def test_what_deceives_a_reader_is_replaced(sign: str):
    assert sign not in visible(f"a{sign}b")
    assert "\N{REPLACEMENT CHARACTER}" in visible(f"a{sign}b")


def test_joined_emoji_stay_whole():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert visible(family) == family


def test_a_line_of_a_mebibyte_is_cut_at_once():
    line = "x<\u202e" * 400_000
    started_s = time.perf_counter()
    assert len(cell(line)) == CELL_CHARS + 1
    assert len(discord(line)) < 1_000_000
    assert time.perf_counter() - started_s < 5


def test_a_turn_of_one_moment_and_a_cause_without_errors_are_drawn():
    assert "0 in 24 hours" in sparkline([0] * 24)
    drawn = timeline([Moment(at_ms=0, after_ms=0, word="<admitted>", attempt=0, who="-")])
    assert "<admitted>" not in drawn
    assert timeline([]) == ""


def test_json_keeps_ids_whole_and_moments_with_their_zone():
    at = datetime(2026, 5, 1, tzinfo=UTC)
    assert plain({"id": 2**60, "n": 7, "at": at, "list": (True,)}) == {
        "id": str(2**60),
        "n": 7,
        "at": "2026-05-01T00:00:00Z",
        "list": [True],
    }
    assert 'datetime="2026-05-01T00:00:00Z"' in moment(at)
    assert moment(None) == ""
