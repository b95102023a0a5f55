"""The tags of private blocks: reasoning and details, in any case, with namespace or attributes.

Comes in: text and a position. Goes out: what tag stands there. Pure; `worker.chunks` and
`worker.segments` may import it.
"""

from enum import StrEnum

import msgspec
import regex

MAX_TAG_CHARS = 256
"""The longest tag with its attributes: templates write short ones; a longer `<` is text."""

_TAG = regex.compile(
    r"<(?P<close>/?)(?:[A-Za-z][\w.-]*:)?"
    r"(?:(?P<think>think|thinking|thought|reasoning)|details)(?:\s[^<>]*)?>",
    regex.I,
)


class Family(StrEnum):
    """Where the text of a block goes: to the thought log, or to short-term memory."""

    THINK = "think"
    DETAILS = "details"


class Tag(msgspec.Struct, frozen=True, gc=False):
    """An opening or closing tag that ends at `end`."""

    family: Family
    closes: bool
    end: int


class Unfinished(msgspec.Struct, frozen=True, gc=False):
    """The text stops inside what may become a tag."""


UNFINISHED = Unfinished()


def tag_at(data: str, start: int, *, final: bool) -> Tag | Unfinished | None:
    """The tag at `start`; None if there is none, `UNFINISHED` if more text decides it."""
    found = _TAG.match(data, start, start + MAX_TAG_CHARS, partial=True)
    if found is None:
        return None
    if found.partial:
        undecided = not final and len(data) - start < MAX_TAG_CHARS
        return UNFINISHED if undecided else None
    family = Family.THINK if found.group("think") else Family.DETAILS
    return Tag(family, bool(found.group("close")), found.end())


def holds_tag(text: str) -> bool:
    """Whether a whole tag stands anywhere in `text`."""
    return _TAG.search(text) is not None
