"""What a message must repeat of the one before it: marks that were cut, and quotation.

Comes in: the texts that are given out. Goes out: prefixes. Discord parses every message alone, so
nothing carries over a cut by itself. Used by `worker.segments.boundaries` only.
"""

import re

from worker.segments.rewrites import QUOTE_MARK

_LAST_MARKS = re.compile(r"\|\|$|\*+$|~~$")
_REST = ">>> "
_QUOTE_TO_THE_END = re.compile(r"(?m)^>>> ")


class Continuation:
    """The state between two messages.

    Attributes:
        reopen: the marks that the next message begins with.
    """

    __slots__ = ("_quote_line", "_quote_rest", "reopen")

    def __init__(self) -> None:
        self.reopen = ""
        self._quote_rest = False  # `>>> ` quotes to the end of the reply
        self._quote_line = False  # `> ` quotes to the end of the line that was cut

    @property
    def rest_mark(self) -> str:
        """`>>> ` once the rest of the reply is quoted: every message begins with it."""
        return _REST if self._quote_rest else ""

    def quote_rest(self) -> None:
        """Notes that a quote to the end of the reply began."""
        self._quote_rest = True

    def begin(self, head: str) -> tuple[str, str]:
        """What stands in front of `head`, and `head` without the white space around it.

        A mark that would be opened only to be closed at once is left out, in both.
        """
        marks, body = self.reopen, head.strip()
        if not marks and not self._quote_line:
            return "", body
        if "\n" in head[: head.find(body)]:
            self._quote_line = False
        while (found := _LAST_MARKS.search(marks)) is not None:
            run = found.group()
            if not body.startswith(run) or body.startswith(run + run[0]):
                break
            marks, body = marks.removesuffix(run), body.removeprefix(run).lstrip()
        return (QUOTE_MARK if self._quote_line else "") + marks, body

    def gave(self, head: str, *, mid_line: bool) -> None:
        """Notes that `head` was given out, cut within its last line or behind it."""
        if _REST in head and _QUOTE_TO_THE_END.search(head):
            self._quote_rest = True
        if not mid_line or self._quote_rest:
            self._quote_line = False
            return
        still = self._quote_line and "\n" not in head.strip()
        self._quote_line = still or head.rsplit("\n", 1)[-1].startswith(QUOTE_MARK)
