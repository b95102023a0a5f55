"""Output rules: what a deployment does not let a reply say, whatever the model says.

Comes in: rules of the configuration, the text of a segment. Goes out: the text that is shown, and
which rules matched. Pure; the worker's edge and the checks of the configuration import it.

A rule sees one segment at a time (a paragraph, a code block, a table): a pattern that needs two of
them never matches. A pattern that takes too long counts as a match of a rule that blocks, so that
nobody gets around it by a text that keeps it busy; for the other rules it is none.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import regex

MATCH_LIMIT_S: Final = 0.05
"""For one pattern over one segment of 2,000 characters, where an honest one takes microseconds."""
MAX_RULES: Final = 100
"""Each costs every segment a search."""


class OutputAction(StrEnum):
    """What happens to a segment that a rule matches."""

    REPLACE = "replace"
    """What matched is put otherwise."""
    BLOCK = "block"
    """The segment is withheld; a line says so in its place."""
    REPORT = "report"
    """It is shown, and operators hear of it."""


class OutputRule(msgspec.Struct, frozen=True, kw_only=True):
    """`[[output_rules]]`: one rule.

    Args:
        name: what logs and alerts call it.
        pattern: a regular expression, searched without regard to case.
        action: what happens.
        replacement: what `replace` puts in its place, taken literally.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    pattern: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    action: OutputAction
    replacement: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a segment: its text, None where it is withheld, and what matched."""

    text: str | None
    matched: tuple[OutputRule, ...] = ()


class Rulebook:
    """The rules of a configuration, ready to be asked.

    Raises:
        regex.error: a pattern is none; `complaint` finds that before.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[OutputRule]) -> None:
        self._rules = [(rule, regex.compile(rule.pattern, _FLAGS)) for rule in rules]

    def judge(self, text: str) -> Judgement:
        """Asks every rule in order; a later one sees what an earlier one replaced."""
        matched: list[OutputRule] = []
        shown: str | None = text
        for rule, pattern in self._rules:
            if shown is None:
                break
            try:
                after, count = pattern.subn(_literally(rule), shown, timeout=MATCH_LIMIT_S)
            except TimeoutError:
                after, count = shown, int(rule.action is OutputAction.BLOCK)
            if not count:
                continue
            matched.append(rule)
            if rule.action is OutputAction.BLOCK:
                shown = None
            elif rule.action is OutputAction.REPLACE:
                shown = after
        return Judgement(text=shown, matched=tuple(matched))


def complaint(rule: OutputRule) -> str | None:
    """What is wrong with a rule's pattern."""
    try:
        pattern = regex.compile(rule.pattern, _FLAGS)
    except regex.error as exc:
        return f"this is no regular expression: {exc}"
    if pattern.search("") is not None:
        return "this pattern matches every text, an empty one too"
    return None


def _literally(rule: OutputRule) -> Callable[[regex.Match[str]], str]:
    """A replacement in which no backslash means anything."""
    return lambda _: rule.replacement


_FLAGS: Final = regex.IGNORECASE | regex.VERSION1
