"""A small model of Discord's Markdown parser: what a reader sees of one message, and how.

Comes in: the text of a message. Goes out: its visible characters, each with its styles. It follows
the grammar of Discord's client as `ItzDerock/discord-markdown-parser` rebuilds it from Khan's
`simple-markdown`: rules are tried in order at each place, a fence opens anywhere and runs to the
next three ticks, what is not closed is literal. Lists are left out, as there.
"""

import re
from collections.abc import Callable, Iterator

Styles = frozenset[str]
Shown = tuple[str, Styles]
Found = tuple[int, str, str]
"""Length of the match, what is inside, the style that it gives ("" for none)."""

LITERAL = "literal"  # inside code nothing else is read

_FENCE = re.compile(r"```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n][\s\S]*?)\n*```", re.I)
_ESCAPE = re.compile(r"\\([^0-9A-Za-z\s])")
_LINK = re.compile(r"\[([^\[\]\n]+)\]\(<?(https?://[^\s<>()]+)>?\)")
_ATOM = re.compile(r"<(?:https?://[^>\s]+|a?:\w+:\d+|[@#][!&]?\d+|t:-?\d+(?::\w)?)>|https?://\S+")
_STRONG = re.compile(r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)")
_EM = re.compile(
    r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)"
    r"|\b_((?:__|\\[\s\S]|[^\\_])+?)_\b"
)
_UNDERLINE = re.compile(r"__((?:\\[\s\S]|[^\\])+?)__(?!_)")
_STRIKE = re.compile(r"~~([\s\S]+?)~~(?!_)")
_CODE = re.compile(r"(`+)([\s\S]*?[^`])\1(?!`)")
_SPOILER = re.compile(r"\|\|([\s\S]+?)\|\|")
_QUOTE_REST = re.compile(r" *>>> +([\s\S]*)")
_QUOTE = re.compile(r"(?: *>(?!>>) +[^\n]*(?:\n|$))+")
_QUOTE_MARK = re.compile(r"(?m)^ *> +")
_HEADING = re.compile(r"(#{1,3}|-#) +([^\n]+)(?:\n|$)")


def shown(message: str) -> list[Shown]:
    """The visible characters of `message` with their styles, white space left out."""
    return [
        (char, styles)
        for char, styles in _parse(message, frozenset())
        if not char.isspace() and char != "\u200b"
    ]


def styles_of(message: str, char: str) -> list[Styles]:
    """The styles of every `char` in `message`."""
    return [styles for found, styles in shown(message) if found == char]


def _parse(text: str, styles: Styles) -> Iterator[Shown]:
    at = 0
    while at < len(text):
        for rule in _RULES:
            found = rule(text, at, styles)
            if found is not None:
                length, inner, style = found
                yield from _inside(inner, styles, style)
                at += length
                break
        else:
            yield text[at], styles
            at += 1


def _inside(inner: str, styles: Styles, style: str) -> Iterator[Shown]:
    if style.startswith(("code", LITERAL)):
        added = styles | {style} if style != LITERAL else styles
        yield from ((char, added) for char in inner)
    else:
        yield from _parse(inner, styles | {style})


def _at_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _quote(text: str, at: int, styles: Styles) -> Found | None:
    if "quote" in styles or not _at_line_start(text, at):
        return None
    if (rest := _QUOTE_REST.match(text, at)) is not None:
        return len(rest.group()), rest.group(1), "quote"
    if (lines := _QUOTE.match(text, at)) is not None:
        return len(lines.group()), _QUOTE_MARK.sub("", lines.group()), "quote"
    return None


def _heading(text: str, at: int, styles: Styles) -> Found | None:
    found = _HEADING.match(text, at) if _at_line_start(text, at) else None
    return found and (len(found.group()), found.group(2), found.group(1))


def _fence(text: str, at: int, _styles: Styles) -> Found | None:
    found = _FENCE.match(text, at)
    return found and (len(found.group()), found.group(2), f"code block {found.group(1) or ''}")


def _escape(text: str, at: int, _styles: Styles) -> Found | None:
    found = _ESCAPE.match(text, at)
    return found and (2, found.group(1), LITERAL)


def _atom(text: str, at: int, _styles: Styles) -> Found | None:
    if (link := _LINK.match(text, at)) is not None:
        return len(link.group()), link.group(1), f"link to {link.group(2)}"
    found = _ATOM.match(text, at)
    return found and (len(found.group()), found.group(), LITERAL)


def _emphasis(text: str, at: int, _styles: Styles) -> Found | None:
    strong, em = _STRONG.match(text, at), _EM.match(text, at)
    if em is not None and (strong is None or len(em.group()) >= len(strong.group())):
        return len(em.group()), em.group(1) or em.group(2), "em"
    return strong and (len(strong.group()), strong.group(1), "strong")


def _simple(pattern: re.Pattern[str], style: str) -> Callable[[str, int, Styles], Found | None]:
    def rule(text: str, at: int, _styles: Styles) -> Found | None:
        found = pattern.match(text, at)
        return found and (len(found.group()), found.group(1), style)

    return rule


def _code(text: str, at: int, _styles: Styles) -> Found | None:
    found = _CODE.match(text, at)
    return found and (len(found.group()), found.group(2), "code")


_RULES: tuple[Callable[[str, int, Styles], Found | None], ...] = (
    _quote,
    _fence,
    _escape,
    _atom,
    _simple(_UNDERLINE, "underline"),
    _emphasis,
    _simple(_STRIKE, "strike"),
    _code,
    _simple(_SPOILER, "spoiler"),
    _heading,
)
