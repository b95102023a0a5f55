"""The normalizer on any stream in any cutting: invariants I1 to I15 of its specification."""

import json
import time
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import TextBlock, ThinkingBlock, ToolCallBlock
from tests.support import cuttings, scripts, streams, wire
from worker.normalize.events import (
    Done,
    Start,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    event_fields,
)
from worker.normalize.partial_json import final_arguments, parse_partial_json
from worker.providers import normalizer_for

places = st.lists(st.integers(0, 2000), max_size=12)
Stream = tuple[str, list[bytes]]
damages = st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), max_size=4)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A stream with bytes overwritten anywhere."""
    provider, blocks = draw(scripts.streams)
    body = bytearray(b"".join(blocks))
    for place, put in draw(damages):
        at = place % (len(body) + 1)
        body[at : at + len(put)] = put
    return provider, bytes(body)


def run(provider: str, *chunks: bytes) -> list[StreamEvent]:
    return streams.run(provider, chunks).events


@given(damaged(), places)
def test_i1_any_cutting_gives_the_same_events(stream: tuple[str, bytes], cuts: list[int]):
    provider, body = stream
    whole = run(provider, body)
    for chunks in (
        cuttings.cut_at(body, [c % (len(body) + 1) for c in cuts]),
        *cuttings.common(body),
    ):
        assert run(provider, *chunks) == whole


@given(scripts.streams, st.data())
def test_i2_line_ends_comments_and_other_fields_change_nothing(stream: Stream, data: st.DataObject):
    provider, blocks = stream
    between = data.draw(st.lists(scripts.noise, min_size=len(blocks), max_size=len(blocks)))
    body = b"".join(noise + block for noise, block in zip(between, blocks, strict=True))
    lines = body.split(b"\n")
    ends = data.draw(st.lists(scripts.endings, min_size=1, max_size=7))
    if data.draw(st.booleans()):
        lines[0] = b"\xef\xbb\xbf" + lines[0]
    mixed = b""
    for number, line in enumerate(lines):
        end = ends[number % len(ends)]
        # CR, then an empty line with LF, would be one CRLF.
        mixed += line + (b"\r" if mixed.endswith(b"\r") and not line else end)
    assert run(provider, mixed) == run(provider, *blocks)


@given(damaged())
def test_i3_i4_i5_one_start_first_and_one_terminal_event_last(stream: tuple[str, bytes]):
    provider, body = stream
    normalizer = normalizer_for(provider, "m")
    events = normalizer.feed(body)
    late = normalizer.feed(body) if events and isinstance(events[-1], Done | StreamFailed) else []
    events += normalizer.flush()
    assert late == normalizer.flush() == []
    terminal = [event for event in events if isinstance(event, Done | StreamFailed)]
    assert terminal == events[-1:]
    starts = [place for place, event in enumerate(events) if isinstance(event, Start)]
    assert starts in ([0], [])
    assert starts == [0] or isinstance(events[0], StreamFailed)


def test_i4_flush_without_a_byte_is_an_empty_stream():
    for provider in scripts.WRITERS:
        (event,) = normalizer_for(provider, "m").flush()
        assert isinstance(event, StreamFailed)
        assert event.reason.code == "empty_stream"


@given(damaged())
def test_i6_i7_deltas_add_up_to_the_content(stream: tuple[str, bytes]):
    events = run(*stream)
    end = events[-1]
    if not isinstance(end, Done):
        return
    for index, block in enumerate(end.content):
        mine = [event for event in events if getattr(event, "index", None) == index]
        match block:
            case TextBlock():
                deltas = [event.delta for event in mine if isinstance(event, TextDelta)]
                assert "".join(deltas) == block.text
                assert all(deltas)
            case ThinkingBlock():
                thoughts = [event for event in mine if isinstance(event, ThinkingDelta)]
                assert "".join(event.delta for event in thoughts) == block.thinking
                signatures = [event.signature for event in thoughts if event.signature]
                assert signatures[-1:] == [s for s in [block.thinking_signature] if s]
            case ToolCallBlock():
                raw = "".join(e.raw_json_delta for e in mine if isinstance(e, ToolCallDelta))
                assert block.arguments == final_arguments(raw)[0]
                assert block.arguments_truncated or is_runnable(raw)
            case _:
                assert mine == []


def is_runnable(raw: str) -> bool:
    """Whether the text as a whole says one object (or nothing), by the standard decoder."""
    if not raw.strip():
        return True
    half = raw[: len(raw) // 2]
    for text in (raw, half) if half + half == raw else (raw,):
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            continue
        return value is None or isinstance(value, dict | str)
    return False


@given(damaged())
def test_i8_i9_previews_and_names_of_calls(stream: tuple[str, bytes]):
    events = [event for event in run(*stream) if isinstance(event, ToolCallDelta)]
    so_far: dict[int, str] = {}
    names: dict[int, tuple[str, str]] = {}
    for event in events:
        so_far[event.index] = so_far.get(event.index, "") + event.raw_json_delta
        assert event.partial_args == parse_partial_json(so_far[event.index])
        assert names.setdefault(event.index, (event.id, event.name)) == (event.id, event.name)
    assert len({call_id for call_id, _ in names.values()}) == len(names)
    assert all(call_id and name for call_id, name in names.values())


@given(damaged())
def test_i9_i10_events_repeat_exactly_and_are_utf8_json(stream: tuple[str, bytes]):
    provider, body = stream
    result = streams.run(provider, [body])
    encoded = [msgspec.json.encode(event_fields(event)) for event in result.events]
    assert encoded == [msgspec.json.encode(event_fields(e)) for e in run(provider, body)]
    assert not any(holds_nul(event_fields(event)) for event in result.events)
    msgspec.json.encode(result.meta).decode()


def holds_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(holds_nul(item) for item in [*value, *value.values()])
    if isinstance(value, list):
        return any(map(holds_nul, value))
    return isinstance(value, str) and "\0" in value


UNKNOWN = {
    "custom": {"sparkle": {"a": [1]}},
    "anthropic": {"type": "sparkle", "delta": {"type": "x"}},
    "openai": {"type": "response.sparkle.delta", "output_index": 0, "delta": "x"},
    "google": {"sparkle": True},
}


@given(scripts.streams, st.integers(0, 50))
def test_i11_unknown_events_change_nothing(stream: Stream, place: int):
    provider, blocks = stream
    at = place % (len(blocks) + 1)
    with_unknown = [*blocks[:at], wire.sse(UNKNOWN[provider]), *blocks[at:]]
    assert run(provider, *with_unknown) == run(provider, *blocks)


FINISHES = (b'"finish_reason": "stop"', b"stop_reason", b"response.completed", b"finishReason")


@given(scripts.streams, st.integers(0, 5000))
def test_i12_i13_prefix_is_done_only_if_it_says_so_and_its_events_are_a_prefix(
    stream: Stream, place: int
):
    provider, blocks = stream
    body = b"".join(blocks)
    cut = body[: place % (len(body) + 1)]
    whole, part = run(provider, body), run(provider, cut)
    if isinstance(part[-1], Done):
        assert any(word in cut for word in FINISHES)
    else:
        assert isinstance(part[-1], StreamFailed)
        assert part[-1].reason.code in ("stream_truncated", "empty_stream")
        said = part[:-1]
        while said != whole[: len(said)] and is_orphan(said[-1]):
            said.pop()
        assert said == whole[: len(said)]


def is_orphan(event: StreamEvent) -> bool:
    """The end of a cut stream says of half a pair that its other half never came."""
    return getattr(event, "delta", getattr(event, "raw_json_delta", "")) == "\ufffd"


@given(st.sampled_from(sorted(scripts.WRITERS)), st.binary(max_size=400))
def test_i14_arbitrary_bytes_never_raise(provider: str, body: bytes):
    for prefix in (b"", b"data: {", b'data: {"choices":[', b'data: {"type":"'):
        assert isinstance(run(provider, prefix + body)[-1], Done | StreamFailed)


@pytest.mark.parametrize("provider", sorted(scripts.WRITERS))
@pytest.mark.parametrize("opener", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [100, 900, 1100, 200_000])
def test_i14_depth_never_raises(provider: str, opener: str, depth: int):
    for member in ("x", "choices", "candidates", "content_block", "item", "error"):
        data = f'data: {{"{member}":{opener * depth}\n\n'.encode()
        assert isinstance(run(provider, data)[-1], StreamFailed)


@pytest.mark.slow
def test_i15_cost_grows_with_the_length():
    def seconds(kib: int) -> float:
        text = json.dumps({"a": "word " * (kib * 205)})
        fragments = [text[at : at + 16] for at in range(0, len(text), 16)]
        script = scripts.Script([("call", scripts.Call("roll", fragments))], ends=True)
        body = [b"".join(blocks) for blocks in [list(scripts.chat(script))]]
        best = []
        for _ in range(3):
            start = time.process_time()
            run("custom", *cuttings.pieces(body[0], 1000))
            best.append(time.process_time() - start)
        return min(best)

    times = [seconds(kib) for kib in (16, 64, 256)]
    # Quadratic work would take sixteen times as long at four times the length.
    assert all(longer < 8 * shorter for shorter, longer in pairwise(times)), times
