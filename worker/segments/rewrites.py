"""What the room changes in a text, one row for each change, with its inverse.

Comes in: bodies. Goes out: bodies as Discord must get them. Completeness is stated up to these
rows: `undone` takes them out of what was sent, and tests compare that with what the model wrote.
Pure; used by the segment room, and by tests.
"""

import re
from collections.abc import Callable

import msgspec

from worker.text.graphemes import fitting_length, last_boundary

FENCE = "```"

ZERO_WIDTH = "\u200b"
"""Breaks a run of marks that Discord would read, without being seen."""

QUOTE_MARK = "> "
"""In front of every line of a quote."""

FILE_SUFFIXES = {
    "": "txt",
    "bash": "sh",
    "c#": "cs",
    "c++": "cpp",
    "csharp": "cs",
    "javascript": "js",
    "markdown": "md",
    "python": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "text": "txt",
    "typescript": "ts",
    "yaml": "yml",
}
"""Info strings whose usual file suffix is another word; all others are their own suffix."""


def fenced(body: str, info: str, spoiler: str = "", quote: str = "") -> str:
    """A code block of its own: fence, info string, and what stands around it.

    Args:
        body: the code; in a quote every line has its mark, but for the first after a cut.
        info: the info string.
        spoiler: marks of a spoiler around the block.
        quote: the mark of a quote in front of each line.
    """
    code = body.removesuffix("\n")
    if not code.startswith(quote):
        code = quote + code
    return f"{quote}{spoiler}{FENCE}{info}\n{code}\n{quote}{FENCE}{spoiler}"


def file_name(info: str) -> str:
    """The name of a file of code in the language `info`."""
    word = info.lower()
    suffix = FILE_SUFFIXES.get(word, word)
    return f"code.{suffix}" if suffix.isalnum() else "code.txt"


def split_code(body: str, info: str, spoiler: str, limit: int) -> tuple[str, ...]:
    """The same code as messages: cut at line ends, an over-long line between characters."""
    messages = []
    while body.strip():
        size = fitting_length(body, limit)
        cut = len(body)
        if size < cut:
            cut = body.rfind("\n", 0, size) + 1
            if not cut or not body[:cut].strip():
                cut = last_boundary(body, size)
        messages.append(fenced(body[:cut], info, spoiler))
        body = body[cut:]
    return tuple(messages)


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """A change that the room makes.

    Args:
        name: what it is.
        undo: takes it out of a text; where it put nothing in, both sides lose the same.
        written: an example of what a model writes, `sent` what a channel gets.
    """

    name: str
    undo: Callable[[str], str]
    written: str
    sent: tuple[str, ...]


def _without(pattern: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.M)
    return lambda text: compiled.sub("", text)


REWRITES: tuple[Rewrite, ...] = (
    Rewrite(
        name="a run in code that Discord would read is broken by a zero-width character",
        undo=_without(ZERO_WIDTH),
        written="````\n```\n````\n",
        sent=("```\n`\u200b`\u200b`\n```",),
    ),
    Rewrite(
        name="a fence is three ticks, opened and closed in every message",
        undo=_without(r"(?:`{3,}|~{3,})(?:[\w+\-.#]{0,20}[ \t]*$)?"),
        written="~~~py\na\n~~~~\nb",
        sent=("```py\na\n```", "b"),
    ),
    Rewrite(
        name="a quote is marked again in every message",
        undo=_without(r"^ {0,3}>(?:>>)? ?"),
        written=">>> a\n\nb",
        sent=(">>> a", ">>> b"),
    ),
    Rewrite(
        name="what is cut is closed and opened again",
        undo=_without(r"\*+|~~|\|\|"),
        written="||a\n\nb||",
        sent=("||a||", "||b||"),
    ),
    Rewrite(
        name="white space at the borders of messages, indentation of fences, surplus line ends",
        undo=_without(r"\s+"),
        written="  a\r\n\n\n\n  ```\n  b\n  ```",
        sent=("a", "```\nb\n```"),
    ),
    Rewrite(
        name="tags of private blocks that were never opened",
        undo=_without(r"</(?:think|thinking|thought|reasoning|details)>"),
        written="a</think>b",
        sent=("ab",),
    ),
)


def undone(text: str) -> str:
    """`text` without all that the room may have put in or taken out."""
    for rewrite in REWRITES:
        text = rewrite.undo(text)
    return text
