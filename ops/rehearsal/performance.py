"""A performance: the beats of a scenario as steps in one wire format. Pure, no clock, no socket.

Comes in: beats, an `Ask`, a `Voice`, the prompt's counts. Goes out: steps in order: frames to be
written at once, a pause, or an ending. The player gives them time and a connection.
"""

from collections.abc import Callable, Iterator
from typing import assert_never

import msgspec

from ops.rehearsal.faults import Faults
from ops.rehearsal.scenarios import (
    Beat,
    Call,
    Cut,
    Draw,
    Fail,
    Finish,
    Refuse,
    Say,
    Silence,
    Think,
)
from ops.rehearsal.tokens import count_tokens, pieces
from ops.rehearsal.values import Ask, Count, Fault, Frame, Voice


class Written(msgspec.Struct, frozen=True):
    """Frames that leave together, when the pace says so."""

    frames: list[Frame]


class Pause(msgspec.Struct, frozen=True):
    """Silence on an open connection."""

    seconds: float


class Ending(msgspec.Struct, frozen=True):
    """The last step. An unclean one leaves the body open, so that the connection is dropped."""

    outcome: str
    is_clean: bool = True


Step = Written | Pause | Ending


class Performance:
    """One answer, step by step; `on_told` hears the counts that it ends with."""

    def __init__(
        self,
        beats: list[Beat],
        ask: Ask,
        voice: Voice,
        count: Count,
        *,
        faults: Faults,
        vendor: str,
        on_told: Callable[[Count], None] = lambda _count: None,
    ) -> None:
        self._beats = beats
        self._ask = ask
        self._voice = voice
        self._count = count
        self._faults = faults
        self._vendor = vendor
        self._output = 0
        self._reasoning = 0
        self._on_told = on_told
        self._called = False

    def steps(self) -> Iterator[Step]:
        """Yields every step; the last is always an `Ending`."""
        yield Written(self._voice.start(self._count))
        for beat in self._beats:
            if isinstance(beat, Fail):
                yield Written(self._voice.fail(self._worded(beat)))
                yield Ending("failed")
                return
            if isinstance(beat, Cut):
                yield Ending("cut", is_clean=beat.clean)
                return
            yield from self._played(beat)
        yield Ending("whole")

    def _played(
        self, beat: Think | Say | Refuse | Draw | Call | Silence | Finish
    ) -> Iterator[Step]:
        match beat:
            case Think():
                if self._ask.wants_thinking:
                    yield from self._streamed(self._voice.think, beat.text, is_reasoning=True)
            case Say():
                text = self._filled(beat.text) * beat.repeat
                yield from self._streamed(self._voice.say, text)
            case Refuse():
                yield from self._streamed(self._voice.refuse, beat.text)
            case Draw():
                yield Written(self._voice.draw(beat.data))
            case Call():
                yield from self._call(beat)
            case Silence():
                yield from self._silent(beat)
            case Finish():
                yield Written(self._finish(beat.reason))
            case _:
                assert_never(beat)

    def _streamed(
        self, voiced: Callable[[str], list[Frame]], text: str, *, is_reasoning: bool = False
    ) -> Iterator[Step]:
        for piece in pieces(text):
            self._output += 1
            self._reasoning += is_reasoning
            yield Written(voiced(piece))

    def _silent(self, beat: Silence) -> Iterator[Step]:
        if beat.heartbeat_s is None:
            yield Pause(beat.seconds)
            return
        for _ in range(round(beat.seconds / beat.heartbeat_s)):
            yield Pause(beat.heartbeat_s)
            yield Written(self._voice.heartbeat())

    def _call(self, beat: Call) -> Iterator[Step]:
        name = beat.name or next(iter(self._ask.tools), None)
        if name is None:
            return  # a model without tools calls none
        arguments = beat.raw
        if arguments is None:
            arguments = msgspec.json.encode(beat.arguments).decode()
        self._output += count_tokens(arguments)
        self._called = True
        yield Written(self._voice.call(name, arguments))

    def _finish(self, reason: str) -> list[Frame]:
        if self._called and reason == "stop":
            reason = "tool_use"
        count = msgspec.structs.replace(self._count, output=self._output, reasoning=self._reasoning)
        self._on_told(count)
        return self._voice.finish(reason, count)

    def _worded(self, beat: Fail) -> Fault:
        return self._faults.worded(beat.fault, self._vendor, model=self._ask.model, key="")

    def _filled(self, text: str) -> str:
        results = " ".join(self._ask.tool_results)
        return text.replace("{tool_result}", results).replace("{prompt}", self._ask.prompt)
