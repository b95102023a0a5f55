"""When prose is cut: at a balanced boundary, when a hold ends, when it grows too long.

Comes in: boundaries as the readers find them, and the markers' state. Goes out: bodies to the
composer. Used by the readers of the segment room and by `worker.segments.buffer`.
"""

import re
from enum import StrEnum

from shared.segments import SegmentKind
from worker.segments.cleaning import Cleaner
from worker.segments.compose import Composer, Piece
from worker.segments.continuation import Continuation
from worker.segments.limits import STALL_MIN_CHARS, Limits
from worker.segments.markers import Kind, Markers, Open
from worker.segments.overflow import Held, Wait, atom_around, atoms, before_openers, find_cut
from worker.segments.window import Window
from worker.text.graphemes import fits, last_boundary
from worker.text.lexicon import is_visible
from worker.text.sentences import sentence_ends

_ORPHAN = re.compile(r"[\s.,!?;:。！？、，…)\]}」』”\"']*")
MAX_ORPHAN_CHARS = 40
"""Punctuation alone joins what follows; a longer run of it is a drawing."""

_STYLED = frozenset({Kind.EMPHASIS, Kind.SPOILER})
_NEVER_CLOSED = frozenset({Kind.PAREN, Kind.BRACKET, Kind.QUOTE, Kind.PAIR})


class Cut(StrEnum):
    """Why a message ends: it decides what is closed and opened again."""

    BOUNDARY = "boundary"
    OVERFLOW = "overflow"
    FINAL = "final"


class Expiry(StrEnum):
    """Why holds end."""

    SIZE = "size"
    BLANK_LINE = "blank_line"
    STALL = "stall"
    STRUCTURE = "structure"
    END = "end"


class Boundaries:
    """Cuts the held prose.

    Attributes:
        code_spans: closed inline code in the window.
    """

    def __init__(
        self,
        window: Window,
        markers: Markers,
        composer: Composer,
        limits: Limits,
        cleaner: Cleaner,
    ) -> None:
        self.code_spans: list[tuple[int, int]] = []
        self.continuation = Continuation()
        self._window = window
        self._markers = markers
        self._composer = composer
        self._limits = limits
        self._cleaner = cleaner
        self._mid_line = False  # the last cut was within a line
        self._passed: list[int] = []  # boundaries that were not balanced when they passed
        self._wait = 0  # no overflow cut before this position

    def retrigger(self) -> None:
        """Finds the position of the next decision of size."""
        window, limits = self._window, self._limits
        trigger = window.base + limits.window
        if trigger < self._wait:
            trigger = self._wait
        holder = self._markers.holder()
        if holder is not None and holder.pos + limits.hold < trigger:
            trigger = holder.pos + limits.hold
        window.trigger = trigger if trigger > window.pos else window.pos + 1

    def candidate(self, position: int) -> None:
        """A boundary passed: cuts if all before it is balanced, remembers it otherwise."""
        window = self._window
        self._shorten(position)
        if position <= window.base:
            return
        short = position - window.base <= MAX_ORPHAN_CHARS
        if short and _ORPHAN.fullmatch(window.slice(window.base, position)):
            return
        live = self._markers.at(position)
        if live and any(item.holds for item in live):
            self._passed.append(position)
            return
        self.cut(position, Cut.BOUNDARY)

    def cut(self, position: int, why: Cut) -> None:
        """Gives out what lies before `position`, closing what is open there."""
        window = self._window
        head = window.slice(window.base, position)
        guarded = self._cleaner.guard(head, at_line_start=not self._mid_line)
        if guarded is not None:
            position, why, head = window.base + guarded, Cut.FINAL, head[:guarded]
        mid_line = why is not Cut.FINAL and not head.endswith("\n")
        carry = mid_line or why is Cut.OVERFLOW
        live = self._closed_by_cut(position, carry=carry or why is Cut.FINAL)
        marks, body = self.continuation.begin(head)
        body, closers = _closed(body, position - len(head) + head.find(body), live)
        body = self._cleaner.clean(body, at_line_start=not self._mid_line)
        if is_visible(body):
            self._give(head, marks + body + closers, position)
            self.continuation.gave(head, mid_line=mid_line)
            kept = [item for item in live if carry or item.kind is Kind.SPOILER]
            for item in live:
                item.dead = item not in kept
                item.carried, item.holds = True, False
        else:
            self._composer.blank(head)
            if not mid_line:
                for item in live:
                    item.dead = item.kind is Kind.EMPHASIS  # closed where its line ended
            kept = [item for item in live if not item.dead]
        if not mid_line or is_visible(body):
            self.continuation.reopen = "".join(item.marker for item in kept)
        self._mid_line = mid_line if head else self._mid_line
        self._forget(position)
        if guarded is not None:
            self._composer.silence()

    def expire(self, why: Expiry) -> None:
        """Ends holds (by size those that are old enough) and cuts what they kept back."""
        if not self._markers.stack:
            return
        for item in self._markers.stack:
            if self._expires(item, why):
                item.holds = False
                item.dead = self._becomes_text(item)
        self._markers.bury(self._window.pos)
        passed, self._passed = self._passed, []
        for position in passed:
            self.candidate(position)
        self.retrigger()

    def grew(self) -> None:
        """The trigger was reached: ends old holds, and cuts what is too long."""
        window = self._window
        if any(
            item.holds and window.pos - item.pos >= self._limits.hold
            for item in self._markers.stack
        ):
            self.expire(Expiry.SIZE)
        while len(window) >= self._limits.window and window.pos >= self._wait:
            if not self._overflow():
                break
        self.retrigger()

    @property
    def holds_back(self) -> bool:
        """A boundary has passed that a hold did not let through."""
        return bool(self._passed)

    def stall(self, *, lines_only: bool) -> None:
        """Nothing came for a while: ends holds; cuts long text at its last sentence end."""
        if lines_only:
            self.expire(Expiry.STALL)
            return
        if len(self._window) < STALL_MIN_CHARS:
            return
        self.expire(Expiry.STALL)
        ends = [end for end in self._whole_ends(self._window.text) if end >= STALL_MIN_CHARS]
        if ends:
            self.cut(self._window.base + ends[-1], Cut.BOUNDARY)

    def trim(self) -> None:
        """Takes back a half sentence at the end, if a whole one stands before it."""
        window = self._window
        text = window.text.rstrip()
        if self._cleaner.guard(text, at_line_start=not self._mid_line) is not None:
            return  # the reply ends there: nothing of it is said again
        ends = self._whole_ends(text, final=True)
        if ends and ends[-1] < len(text) and is_visible(text[: ends[-1]]):
            end = window.base + ends[-1]
            window.rewind(end)
            self._markers.rewind(end)

    def finish(self) -> None:
        """Gives out all that is held."""
        self._shorten(self._window.pos)
        self.cut(self._window.pos, Cut.FINAL)

    def forget_behind(self, position: int) -> None:
        """What follows `position` is no prose: boundaries that passed in it are none."""
        self._passed = [at for at in self._passed if at <= position]

    def restart(self) -> None:
        """Begins anew behind a block that is no prose: nothing of before is held."""
        self.code_spans, self._passed, self._wait = [], [], 0

    def _shorten(self, position: int) -> None:
        window, body = self._window, self._limits.body
        if 2 * (position - window.base) <= body:
            return
        while position > window.base and not fits(window.slice(window.base, position), body):
            self._overflow()

    def _closed_by_cut(self, position: int, *, carry: bool) -> list[Open]:
        live = []
        for item in self._markers.at(position):
            if item.kind is Kind.SPOILER:
                live.append(item)
            elif item.kind is Kind.EMPHASIS:
                if carry or item.carried:
                    live.append(item)
                else:
                    item.dead = True  # its hold has ended and so has its line: it is text
        return live

    def _give(self, head: str, text: str, position: int) -> None:
        self._composer.give(
            Piece(
                kind=SegmentKind.TEXT,
                quote=self.continuation.rest_mark,
                text=text,
                end=self._window.offset(position),
                lead=head[: len(head) - len(head.lstrip())],
                trail=head[len(head.rstrip()) :],
            )
        )

    def _forget(self, position: int) -> None:
        self._window.drop_before(position)
        self._markers.forget_before(position)
        if self._passed:
            self._passed = [at for at in self._passed if at > position]
        if self.code_spans:
            self.code_spans = [span for span in self.code_spans if span[1] > position]
        self._wait = 0
        self.retrigger()

    def _expires(self, item: Open, why: Expiry) -> bool:
        if item.dead or not item.holds or item.kind is Kind.CODE:
            return False
        return why is not Expiry.SIZE or self._window.pos - item.pos >= self._limits.hold

    def _becomes_text(self, item: Open) -> bool:
        """Brackets are never closed or repeated; an emphasis is text if it kept lines back."""
        if item.kind in _NEVER_CLOSED:
            return True
        if item.kind is Kind.SPOILER:
            return not item.tight
        kept_lines = any(
            at > item.pos and self._window.slice(at - 1, at) == "\n" for at in self._passed
        )
        return kept_lines and not item.carried

    def _whole_ends(self, text: str, *, final: bool = False) -> list[int]:
        """The sentence ends of what is held that lie in no link, code, bracket or quotation."""
        whole, openers = atoms(text) + self._held_spans(), self._openers()
        ends = (before_openers(end, openers) for end in sentence_ends(text, final=final))
        return [
            end
            for end in ends
            if atom_around(whole, end) is None
            and not any(item.holds for item in self._markers.at(self._window.base + end))
        ]

    def _openers(self) -> dict[int, int]:
        """Behind each opening mark in what is held, where it begins."""
        base = self._window.base
        return {
            at - base: after[-1].pos - base
            for at, before, after in self._markers.moved_marks()
            if len(after) > len(before) and after[-1].pos >= base
        }

    def _held_spans(self) -> list[tuple[int, int]]:
        base = self._window.base
        return [(start - base, end - base) for start, end in self.code_spans]

    def _overflow(self) -> bool:
        """Cuts at the best place; False if it is better to wait for more."""
        window = self._window
        holder = self._markers.holder()
        held = Held(
            text=window.text,
            holder=None if holder is None else holder.pos - window.base,
            code_spans=self._held_spans(),
            openers=self._openers(),
            hard_cut=self._hard_cut,
        )
        found = find_cut(held, self._limits)
        if isinstance(found, Wait):
            self._wait = window.base + found.length
            return False
        self.cut(window.base + found, Cut.OVERFLOW)
        return True

    def _hard_cut(self, text: str, limit: int) -> int:
        """The last place that parts neither a character nor a marker from its text."""
        cut = last_boundary(text, limit)
        base = self._window.base
        for position, before, after in self._markers.moved_marks():
            end = position - base
            if len(after) > len(before):
                start = after[-1].pos - base
                if start < cut <= end:
                    cut = max(start, 1)  # not in an opener or right behind it
                continue
            closed = [item.marker for item in before if item.kind in _STYLED and item not in after]
            start = end - sum(map(len, closed))
            if start <= cut < end and text[start:end].strip("*~|") == "":
                cut = end  # not in a closer or right in front of it
        return cut


def _closed(body: str, start: int, live: list[Open]) -> tuple[str, str]:
    """The body that begins at `start`, and what closes it.

    A mark that was opened at its very end is not closed there: an emphasis is text, and a spoiler
    begins with the next message instead.
    """
    closers = ""
    for item in reversed(live):
        behind = body[max(item.pos - start, 0) :]
        if item.pos >= start and behind.strip(item.marker[0]) == "":
            if item.kind is Kind.SPOILER:
                body = body.removesuffix(item.marker).rstrip()
        else:
            closers += item.marker
    return body, closers
