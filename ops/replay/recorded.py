"""A failed attempt once more, offline: its recorded bytes and ticks through the worker's own rooms.

Comes in: the request and the recording of an attempt, from Redis or from an export. Goes out: what
passed between the rooms, step by step: requests, bytes, events, chunks, segments. Nothing is sent;
the same recording gives the same steps, so that a normalization bug is reproduced exactly.
"""

import contextlib
import difflib
from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from shared.recording import Asked, Carried, Dropped, Entry, Received, Ticked, read_recording
from shared.segments import Segment
from shared.turns import Target, TurnRequest
from worker.chunks.types import ProcessedChunk
from worker.normalize.events import StreamEvent, event_fields
from worker.normalize.storable import scrub
from worker.turn.pipeline import Pipeline, pipeline_for


class Layer(StrEnum):
    """Where a step was seen."""

    BYTES = "bytes"
    ASKED = "asked"
    CARRIED = "carried"
    DROPPED = "dropped"
    EVENT = "event"
    CHUNK = "chunk"
    SEGMENT = "segment"
    END = "end"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something that passed. `at_s` counts from the first entry of the recording."""

    at_s: float
    layer: Layer
    facts: dict[str, object]


class Tape(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that can be played. `delivered` is what the channel shows of it, where known."""

    request: TurnRequest
    attempt: int
    recording: bytes
    delivered: tuple[str, ...] | None = None


class Playback(msgspec.Struct, frozen=True, kw_only=True):
    """What a tape gives. `is_whole` is false where the recording's bound has left a gap."""

    steps: list[Step]
    segments: list[Segment]
    is_whole: bool


class _Player:
    """Feeds the entries and writes down what they lead to."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._start_s: float | None = None
        self._at_s = 0.0
        self.steps: list[Step] = []
        self.segments: list[Segment] = []
        self.is_whole = True
        pipeline.observe = self._observe

    def take(self, entry: Entry) -> None:
        """Does what the driver did by an entry."""
        match entry:
            case Received(data=data):
                said = data.decode("utf-8", "replace")
                self._moved(entry.at_s)
                self._note(Layer.BYTES, {"bytes": len(data), "text": said})
            case Ticked() | Asked():
                self._moved(entry.at_s)
            case Carried(text=text):
                self._note(Layer.CARRIED, {"text": text})
            case Dropped(entries=entries):
                self.is_whole = False
                self._note(Layer.DROPPED, {"entries": entries})
        if isinstance(entry, Asked):
            self._note(Layer.ASKED, {"what": f"{entry.target.provider}/{entry.target.model}"})
        self._came(self._pipeline.play(entry))

    def ended(self) -> None:
        self._note(Layer.END, {"what": "end of the recording"})
        self._came(self._pipeline.flush())

    def _observe(self, passed: StreamEvent | ProcessedChunk) -> None:
        if isinstance(passed, ProcessedChunk):
            self._note(Layer.CHUNK, msgspec.to_builtins(passed))
            return
        facts = event_fields(passed)
        facts.pop("partial_args", None)  # the view of all so far: a trace of it is quadratic
        self._note(Layer.EVENT, facts)

    def _came(self, segments: list[Segment]) -> None:
        self.segments.extend(segments)
        for segment in segments:
            self._note(Layer.SEGMENT, msgspec.to_builtins(segment))

    def _moved(self, at_s: float) -> None:
        if self._start_s is None:
            self._start_s = at_s
        self._at_s = at_s - self._start_s

    def _note(self, layer: Layer, facts: dict[str, object]) -> None:
        kept = scrub(facts)
        assert isinstance(kept, dict)  # noqa: S101  # scrub keeps the shape; for the type checker
        self.steps.append(Step(at_s=round(self._at_s, 3), layer=layer, facts=kept))


def play(tape: Tape, change: Callable[[Target], Target] = lambda target: target) -> Playback:
    """Plays a tape with the target and tools that were really asked.

    Args:
        tape: the attempt.
        change: another target instead, to see what a different dialect makes of the bytes.

    Raises:
        WireError: the recording cannot be read.
    """
    player = _player_for(tape, change)
    for entry in read_recording(tape.recording):
        player.take(entry)
    player.ended()
    return Playback(steps=player.steps, segments=player.segments, is_whole=player.is_whole)


def steps_until_a_crash(tape: Tape) -> list[Step]:
    """The steps of a tape, as many as there are: what failed may be a room that trips over it."""
    player = _player_for(tape, lambda target: target)
    with contextlib.suppress(Exception):
        for entry in read_recording(tape.recording):
            player.take(entry)
        player.ended()
    return player.steps


def _player_for(tape: Tape, change: Callable[[Target], Target]) -> _Player:
    first = next((one for one in read_recording(tape.recording) if isinstance(one, Asked)), None)
    request, target = tape.request, tape.request.target
    if first is not None:
        target = first.target
        request = msgspec.structs.replace(request, tools=first.tools or request.tools)
    return _Player(pipeline_for(request, change(target), tape.attempt))


def difference(delivered: Sequence[str], segments: Sequence[Segment]) -> list[str]:
    """The lines in which what was delivered and what the rooms give now differ; none when equal."""
    old = "\n\n".join(delivered).splitlines()
    new = "\n\n".join(segment.text for segment in segments).splitlines()
    return list(difflib.unified_diff(old, new, "delivered", "replayed", lineterm=""))


def answers_of(recording: bytes) -> list[tuple[Asked | None, bytes]]:
    """The bytes of each response in a recording with the request that it answers.

    A request that was answered with nothing is left out.
    """
    rounds: list[tuple[Asked | None, list[bytes]]] = [(None, [])]
    for entry in read_recording(recording):
        if isinstance(entry, Asked):
            rounds.append((entry, []))
        elif isinstance(entry, Received):
            rounds[-1][1].append(entry.data)
    return [(asked, b"".join(parts)) for asked, parts in rounds if parts]


def bodies_of(recording: bytes) -> list[bytes]:
    """The bytes of each response in a recording, as `turnfleet normalize` reads them."""
    return [body for _, body in answers_of(recording)]
