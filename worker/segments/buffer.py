"""Text in, segments of a reply out: whole in themselves, in order, nothing lost.

Comes in: the visible text of an attempt, in any cutting. Goes out: `shared.segments.Segment`.
Pure: a driver feeds it, ticks it, and ends it. `worker.turn` and `ops.replay` may import it.
"""

from shared.segments import DeliveryMode, Segment
from worker.segments.boundaries import Expiry
from worker.segments.cleaning import Cleaner, Cleaning
from worker.segments.code import CodeReader
from worker.segments.compose import Composer
from worker.segments.limits import AGGREGATED, CHAT, STALL_LINE_S, STALL_TEXT_S, Limits
from worker.segments.prose import ProseReader
from worker.segments.router import GapReader, PrivateReader
from worker.segments.scan import Scan, Wake
from worker.segments.spans import SpanReader
from worker.segments.stall import StallWatch
from worker.segments.table_reader import SeparatorReader, TableReader
from worker.text.tags import Family

MAX_UNREAD_CHARS = 900
"""So much may wait unread when it holds nothing that ends a segment: no hold ends earlier."""

MAX_PIECE_CHARS = 4096
"""Longer pieces are read in parts, so that reading a part again costs no more than this."""

NO_CLEANING = Cleaning()
"""Only what no reply should show: end-of-turn tokens."""

_HISTORY_PARTS = 512  # deltas are joined in groups of this size: memory, not meaning


class SegmentBuffer:
    """The segment room of one attempt.

    Attributes:
        thoughts: reasoning blocks found in the text; `details`: blocks for short-term memory.
        history: the text as it was fed, for the next request of a tool round
            (`current_turn_model_parts`).
    """

    def __init__(
        self,
        turn_id: str,
        attempt: int,
        *,
        mode: DeliveryMode = DeliveryMode.PARAGRAPH,
        limits: Limits | None = None,
        cleaning: Cleaning = NO_CLEANING,
    ) -> None:
        self.thoughts: list[str] = []
        self.details: list[str] = []
        self.history: list[str] = []
        self._mode = DeliveryMode(mode)
        self._packs = self._mode in {DeliveryMode.AGGREGATED, DeliveryMode.EDIT}
        aggregated = self._mode is DeliveryMode.AGGREGATED
        # Whoever watches a message grow sees it grow by sentences.
        self._cuts = DeliveryMode.SENTENCE if self._mode is DeliveryMode.EDIT else self._mode
        self._limits = limits or (AGGREGATED if aggregated else CHAT)
        self._cleaner = Cleaner(cleaning)
        lines_only = self._mode is DeliveryMode.LINE
        self._stall = StallWatch(STALL_LINE_S if lines_only else STALL_TEXT_S)
        self._composer = Composer(turn_id, attempt, self._mode, self._limits)
        self._ended = False
        self._read = 0  # deltas of the history that were read
        self._joined = 0  # deltas of the history that were joined
        self._room = 0  # characters that may wait unread
        self._wakes: Wake
        self._keep = self.history.append  # feed is called for every delta: bound once
        self._base = 0
        self._restart()

    def feed(self, text: str) -> list[Segment]:
        """Takes a piece of text and returns what is finished.

        Raises:
            RuntimeError: the reply was ended by `flush`.
        """
        if not text:
            return []
        self._keep(text)
        room = self._room = self._room - len(text)
        if room > 0 and self._wakes(text) is None:
            return []
        return self._advance()

    @property
    def stopped(self) -> bool:
        """The speaker guard ended the reply: nothing more will come, the stream can be closed."""
        return self._composer.silent

    @property
    def pending(self) -> str:
        """What is finished of the next segment, where segments are packed; it may still grow."""
        return self._composer.pending

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire when no text came for a while; `now_s` is the driver's clock.

        Finished lines and paragraphs come out, and the whole sentences of a long text; half
        sentences, code, tables and what is aggregated stay.
        """
        if self._ended or self._packs:
            return []
        self._read_unread()
        scan, window = self._scan, self._scan.window
        holds_back = scan.boundaries.holds_back
        if self._stall.is_due(now_s, base=window.base, end=window.pos, holds_back=holds_back):
            self._prose.stall()
        self._rearm()
        return self._composer.take()

    def flush(self) -> list[Segment]:
        """Ends the reply and returns what was held."""
        if self._ended:
            return []
        segments = self._finish(trim=False)
        self._ended, self._room = True, 0
        return segments

    def flush_pending(self, *, for_tool_call: bool) -> list[Segment]:
        """Gives out what is held, before a tool call or at a stop; more text may follow.

        Before a tool call a half sentence at the end is not shown; the history has it.
        """
        if self._ended:
            return []
        segments = self._finish(trim=for_tool_call)
        self._composer.blank("\n\n")  # what follows is another thought
        self._restart()
        return segments

    def attach(self, picture: str, *, filename: str, note: str) -> list[Segment]:
        """Gives out what is held, and then a picture that stands for itself; text may follow.

        Args:
            picture: the name that it is kept under.
            filename: as it is shown by.
            note: what is said where it cannot be shown.
        """
        segments = self.flush_pending(for_tool_call=False)
        if self._ended:
            return segments
        self._composer.attach(picture, filename=filename, note=note)
        return segments + self._composer.take()

    def _restart(self) -> None:
        scan = Scan(
            mode=self._cuts,
            limits=self._limits,
            composer=self._composer,
            cleaner=self._cleaner,
            base=self._base,
        )
        spans, gap = SpanReader(scan), GapReader(scan)
        blocks = {Family.THINK: self.thoughts, Family.DETAILS: self.details}
        private = PrivateReader(scan, blocks)
        code = CodeReader(scan, spans)
        separator, table = SeparatorReader(scan), TableReader(scan, private)
        prose = ProseReader(scan, code=code, tags=private, tables=separator)
        code.attach(prose)
        separator.attach(prose, table)
        table.attach(prose)
        private.attach(prose, gap)
        scan.reader = prose
        self._scan, self._prose, self._code = scan, prose, code
        self._table, self._private = table, private
        self._tail, self._carriage = "", False
        self._rearm()

    def _rearm(self) -> None:
        """Says what a piece must hold to be read at once."""
        scan = self._scan
        wake = scan.reader.wake()
        undecided = self._tail and (
            scan.reader is self._code or self._cuts is DeliveryMode.SENTENCE
        )
        if wake is None or self._carriage or undecided:
            self._room = 0
            return
        self._wakes = wake
        left = scan.window.trigger - scan.window.pos - len(self._tail)
        self._room = min(left, MAX_UNREAD_CHARS)

    def _advance(self) -> list[Segment]:
        if self._ended:
            self.history.pop()
            raise RuntimeError("the segment buffer was flushed: a reply ends once")
        self._read_unread()
        self._rearm()
        return self._composer.take()

    def _read_unread(self) -> None:
        text = "".join(self.history[self._read :])
        self._read = len(self.history)
        if self._read - self._joined >= _HISTORY_PARTS:
            self.history[self._joined :] = ["".join(self.history[self._joined :])]
            self._read = self._joined = self._joined + 1
        for start in range(0, len(text), MAX_PIECE_CHARS):
            piece = self._line_ends(text[start : start + MAX_PIECE_CHARS])
            self._tail = self._scan.run(self._tail + piece, final=False)

    def _line_ends(self, text: str) -> str:
        """Makes every line end one line feed; a carriage return waits for what follows it."""
        if self._carriage:
            text, self._carriage = "\r" + text, False
        if "\r" not in text:
            return text
        if text.endswith("\r"):
            text, self._carriage = text[:-1], True
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def _finish(self, *, trim: bool) -> list[Segment]:
        scan = self._scan
        self._read_unread()
        scan.run(self._tail + ("\n" if self._carriage else ""), final=True)
        if scan.reader is self._private:
            self._private.close()
        if scan.reader is self._code:
            self._code.close()
        if scan.reader is self._table:
            self._table.finish()
            scan.run("", final=True)
        self._prose.finish()
        scan.boundaries.expire(Expiry.END)
        self._base = scan.window.offset(scan.window.pos)
        if trim:
            scan.boundaries.trim()
        scan.boundaries.finish()
        self._composer.close_pack()
        return self._composer.take()
