"""Running the chunk room on texts, events and corpus cases.

Comes in: deltas, or a stream case. Goes out: what the room gave, joined by kind. For tests of
`worker.chunks` and the conformance suite.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from shared.turns import ToolSpec
from worker.chunks.pieces import Called, Piece, Reasoned, Visible
from worker.chunks.processor import ChunkProcessor
from worker.chunks.types import (
    DoneChunk,
    ErrorChunk,
    FunctionCall,
    FunctionCallChunk,
    ProcessedChunk,
    TextChunk,
)
from worker.normalize.events import StreamEvent
from worker.providers import normalizer_for


class Said:
    """What the room gave for one stream."""

    def __init__(self, chunks: Sequence[ProcessedChunk]) -> None:
        self.chunks = list(chunks)

    @property
    def text(self) -> str:
        """The visible text."""
        return "".join(chunk.content for chunk in self.chunks if isinstance(chunk, TextChunk))

    @property
    def thoughts(self) -> str:
        """The reasoning."""
        return "".join(thought.content for chunk in self.chunks for thought in chunk.thoughts)

    @property
    def calls(self) -> list[FunctionCall]:
        """The calls, in order."""
        return [chunk.call for chunk in self.chunks if isinstance(chunk, FunctionCallChunk)]

    @property
    def end(self) -> DoneChunk | ErrorChunk:
        """The last chunk."""
        end = self.chunks[-1]
        assert isinstance(end, DoneChunk | ErrorChunk)
        return end

    @property
    def metadata(self) -> dict[str, Any]:
        """Of the last chunk."""
        return self.end.metadata or {}


def say(processor: ChunkProcessor, events: Iterable[StreamEvent]) -> Said:
    """Feeds events, flushes, and collects."""
    chunks = [chunk for event in events for chunk in processor.feed(event)]
    return Said(chunks + processor.flush())


def tool(name: str, required: Iterable[str] = (), **types: str) -> ToolSpec:
    """A tool with a schema of plain types."""
    properties = {key: {"type": kind} for key, kind in types.items()}
    return ToolSpec(name=name, parameters={"required": list(required), "properties": properties})


def case_tools(context: dict[str, Any]) -> list[ToolSpec]:
    """The tools of a corpus case."""
    return [
        tool(row["name"], row["required"], **row["properties"]) for row in context.get("tools", ())
    ]


def case_bytes(case: Any) -> bytes:
    """The bytes as a room is fed them: the transport has undone the content encoding."""
    coded = case.get("input_b64")
    data = base64.b64decode(coded) if coded else case["input"].encode()
    if case.get("extra", {}).get("content_encoding") == "gzip":
        return zlib.decompress(data, wbits=31)
    return data


def run_case(case: Any, chunks: Iterable[bytes]) -> Said:
    """A stream case through normalizer and chunk room."""
    context = case.get("context", {})
    tools = case_tools(context)
    normalizer = normalizer_for(case["provider"], "demo", [spec.name for spec in tools])
    processor = ChunkProcessor(
        provider=case["provider"],
        model="demo",
        tools=tools,
        verbatim_tools=context.get("verbatim_tools", False),
        meta=lambda: normalizer.meta,
    )
    events = [event for chunk in chunks for event in normalizer.feed(chunk)]
    return say(processor, events + normalizer.flush())


def show(pieces: Iterable[Piece]) -> str:
    """Pieces as one line: text as it is, reasoning in braces, calls in brackets."""
    shown: list[str] = []
    for piece in pieces:
        match piece:
            case Visible(text=text):
                shown.append(text)
            case Reasoned(text=text):
                shown.append(f"{{{text}}}")
            case Called(name=name, args=args, state=state):
                shown.append(f"[{name} {args} {state}]")
    return "".join(shown)
