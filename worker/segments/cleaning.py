"""Cleans the text of a message of what a model should not have said, and repairs what it meant.

Comes in: the body of a text segment, with its inline code. Goes out: the same without end-of-turn
tokens and the bot's own name as a label, with emoji and mentions in Discord's form. Text in code is
never touched, no pair of tags is removed. A filter is one row of `ROWS`, with examples that a test
runs in both directions. Pure; drivers build a `Cleaning`, the boundaries apply it.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from worker.text.graphemes import fits

Span = tuple[int, int]

MAX_CLEAN_CHARS = 1940
"""A body that grows beyond this stays as it was: prefix and marks must still fit in 2,000."""


class Cleaning(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the channel.

    Args:
        own_names: names of the bot: `Name: ` at the start of a line is not shown.
        speakers: names of others; a line that begins with such a label ends the reply (opt-in).
        emoji: name of a custom emoji to its whole form, `<:name:id>` or `<a:name:id>`.
        members: lower-case name to user id, unambiguous names only.
    """

    own_names: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    emoji: Mapping[str, str] = msgspec.field(default_factory=dict)
    members: Mapping[str, int] = msgspec.field(default_factory=dict)


class Example(msgspec.Struct, frozen=True):
    """What a row changes (`before` to `after`), and a text that it must leave alone."""

    before: str
    after: str
    untouched: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A filter: `pattern` finds what it is about, `replace` says what stands there instead.

    Args:
        at_line: it is about the start of lines; `grows`: its result may be longer.
    """

    name: str
    pattern: Callable[[Cleaning], re.Pattern[str] | None]
    replace: Callable[[re.Match[str], Cleaning], str]
    example: Example
    at_line: bool = False
    grows: bool = False


class Cleaner:
    """The rows that apply with one `Cleaning`, compiled."""

    def __init__(self, cleaning: Cleaning) -> None:
        self._cleaning = cleaning
        compiled = [(row, row.pattern(cleaning)) for row in ROWS]
        rows = [(row, pattern) for row, pattern in compiled if pattern is not None]
        self._cuts = [pair for pair in rows if not pair[0].grows]
        self._repairs = [pair for pair in rows if pair[0].grows]
        self._guard = _labels(cleaning.speakers)

    def clean(self, body: str, *, at_line_start: bool) -> str:
        """Applies the rows to `body`, but not in its inline code."""
        for row, pattern in self._cuts:
            body = self._apply(row, pattern, body, at_line_start)
        repaired = body
        for row, pattern in self._repairs:
            repaired = self._apply(row, pattern, repaired, at_line_start)
        return repaired if repaired is body or fits(repaired, MAX_CLEAN_CHARS) else body

    def guard(self, body: str, *, at_line_start: bool) -> int | None:
        """Where another speaker's label begins in `body`: the reply ends there."""
        if self._guard is None or self._guard.search(body) is None:
            return None
        spans = code_spans(body)
        for found in self._guard.finditer(body):
            at = found.start()
            if (at > 0 or at_line_start) and not _inside(at, spans):
                return at
        return None

    def _apply(self, row: Row, pattern: re.Pattern[str], text: str, at_line_start: bool) -> str:
        if pattern.search(text) is None:
            return text
        spans = code_spans(text)

        def replaced(found: re.Match[str]) -> str:
            at = found.start()
            mid_line = row.at_line and at == 0 and not at_line_start
            if mid_line or _inside(at, spans):
                return found.group()
            return row.replace(found, self._cleaning)

        return pattern.sub(replaced, text)


_TICKS = re.compile("`+")


def code_spans(text: str) -> list[Span]:
    """The inline code of a text that is whole in itself: equal runs of ticks, from the left."""
    runs = [found.span() for found in _TICKS.finditer(text)]
    spans, at = [], 0
    while at < len(runs):
        start, end = runs[at]
        closers = (
            index
            for index in range(at + 1, len(runs))
            if runs[index][1] - runs[index][0] == end - start
        )
        closer = next(closers, None)
        if closer is not None:
            spans.append((start, runs[closer][1]))
            at = closer
        at += 1
    return spans


def _inside(at: int, spans: list[Span]) -> bool:
    return any(start <= at < end for start, end in spans)


def _labels(names: tuple[str, ...]) -> re.Pattern[str] | None:
    """`Name:` at the start of a line, plain or bold."""
    if not names:
        return None
    name = "|".join(re.escape(word) for word in sorted(names, key=len, reverse=True))
    label = rf"(?:\*\*(?:{name})\*\*[:：]|\*\*(?:{name})[:：]\*\*|(?:{name})[:：])"
    return re.compile(rf"(?im)^{label}(?=\s|$)[ \t]*")


def _end_of_turn(_: Cleaning) -> re.Pattern[str]:
    return _END_OF_TURN


def _emoji(cleaning: Cleaning) -> re.Pattern[str] | None:
    return _EMOJI if cleaning.emoji else None


def _mention(cleaning: Cleaning) -> re.Pattern[str] | None:
    return _MENTION if cleaning.members else None


def _repair_emoji(found: re.Match[str], cleaning: Cleaning) -> str:
    return cleaning.emoji.get(found.group("name") or found.group("bare"), found.group())


def _repair_mention(found: re.Match[str], cleaning: Cleaning) -> str:
    name = (found.group("long") or found.group("short")).strip().lower()
    given = found.group("id") or found.group("short_id")
    if given and int(given) in cleaning.members.values():
        return f"<@{given}>"
    user = cleaning.members.get(name)
    return found.group() if user is None or name in _NEVER else f"<@{user}>"


_NEVER = frozenset({"everyone", "here"})

# Chat templates of Llama, Qwen, Gemma, Phi, Mistral, gpt-oss; no HTML tag has these names.
_END_OF_TURN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|end|return|eom_id|end_of_turn)\|>"
    r"|<(?:end_of_turn|eos)>|</s>(?=\s*\Z)"
)
_EMOJI = re.compile(r"<a?:(?P<name>\w{2,32}):\d+>|(?<![\w<:]):(?P<bare>\w{2,32}):(?![\w:])")
_MENTION = re.compile(
    r"(?<![\w<@])@(?:[{(\[](?P<long>[^{}()\[\]|\n]{1,40})(?:\|(?P<id>\d{1,20}))?[})\]]"
    r"|(?P<short>\w[\w.]{0,31}(?<!\.))(?:\|(?P<short_id>\d{1,20}))?)"
)

ROWS: tuple[Row, ...] = (
    Row(
        name="end-of-turn token",
        pattern=_end_of_turn,
        replace=lambda _found, _cleaning: "",
        example=Example("Done.<|im_end|>", "Done.", "a <|b|> c </s> d"),
    ),
    Row(
        name="own name as a label",
        pattern=lambda cleaning: _labels(cleaning.own_names),
        replace=lambda _found, _cleaning: "",
        at_line=True,
        example=Example("Tomo: Hi.\n**Tomo:** you", "Hi.\nyou", "I am Tomo: the bot"),
    ),
    Row(
        name="custom emoji",
        pattern=_emoji,
        replace=_repair_emoji,
        example=Example("Hi :wave: <:wave:1>", "Hi <:wave:77> <:wave:77>", "at 10:wave:20 :other:"),
        grows=True,
    ),
    Row(
        name="mention",
        pattern=_mention,
        replace=_repair_mention,
        example=Example(
            "@ann @{Ann} @[ann|7] @(Ann)", "<@7> <@7> <@7> <@7>", "@everyone @bob a@ann @{nobody}"
        ),
        grows=True,
    ),
)
