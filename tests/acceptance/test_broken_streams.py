"""Streams that drip, and streams that break in the middle, over real sockets.

A slow-loris sends a byte now and then for ever: each of its forms trips the limit that it is under,
and its connection is closed. After text was shown, the reply is one whole answer of the last
attempt.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from shared.segments import TurnDone, TurnFailed
from tests.support.doorman import (
    HEAD,
    WHOLE,
    Answer,
    Doorman,
    Drip,
    Reset,
    Step,
    delta,
    doorman,
    event,
    http,
    saying,
    stream,
)
from tests.support.staged_turns import QUICK, client, play
from worker.edges.http import HttpEdge

pytestmark = pytest.mark.slow

SLACK_S = 3.0
"""For a busy machine. A slow-loris would never end."""


@pytest.fixture
async def man() -> AsyncIterator[Doorman]:
    async with doorman() as running:
        yield running


@pytest.fixture
async def edge(man: Doorman) -> AsyncIterator[HttpEdge]:
    async with client(man) as running:
        yield running


def http_head(status: int, **headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Answer\r\n{lines}".encode()


class Loris(msgspec.Struct, frozen=True):
    """A dripping answer, the cause that it ends with, and the limit that it trips."""

    answer: Answer
    cause: str
    limit_s: float


DRIPS = {
    "a header now and then": Loris(
        (http_head(200), Drip(b"x-more: 1\r\n", 0.1)), "network_timeout", QUICK.first_byte_s
    ),
    "an error's body now and then": Loris(
        (http_head(500, **{"content-length": "100000"}) + b"\r\n", Drip(b"x", 0.1)),
        "server_error",
        0.5,
    ),
    "a line that never ends": Loris(
        (HEAD, Drip(b"d", 0.1)), "network_timeout", QUICK.between_chunks_s
    ),
    "nothing but signs of life": Loris(
        (HEAD, Drip(b": ping\n\n", 0.1)), "network_timeout", QUICK.between_chunks_s
    ),
    "signs of life after a text": Loris(
        stream(delta(content="Half an "), Drip(b": ping\n\n", 0.1)),
        "network_timeout",
        QUICK.between_chunks_s,
    ),
    "a text without an end": Loris(
        (HEAD, Drip(delta(content="and "), 0.05)), "request_timeout", QUICK.whole_stream_s
    ),
}


@pytest.mark.parametrize("loris", DRIPS.values(), ids=DRIPS)
async def test_a_slow_loris_trips_its_limit(man: Doorman, edge: HttpEdge, loris: Loris):
    started_s = time.monotonic()
    turn = await play(man, edge, "drip", loris.answer)
    elapsed_s = time.monotonic() - started_s
    assert turn.causes == [loris.cause]
    assert turn.requests == ["first/k1", "second/k1"]
    assert turn.text == WHOLE
    assert loris.limit_s <= elapsed_s < loris.limit_s + SLACK_S
    async with asyncio.timeout(5):
        while "drip" not in man.closed:
            await asyncio.sleep(0.01)


PARAGRAPHS = tuple(delta(content=f"Paragraph {n}.\n\n") for n in range(1, 4))


def broken(*steps: Step) -> Answer:
    return stream(*PARAGRAPHS, *steps)


def fails(**error: object) -> bytes:
    return event({"error": {"message": "no", **error}})


class Break(msgspec.Struct, frozen=True):
    """How a stream breaks after three paragraphs, and what is asked then."""

    answers: tuple[Answer, ...]
    causes: tuple[str, ...]
    requests: tuple[str, ...]


BREAKS = {
    "throttled: another key": Break(
        (broken(fails(code="rate_limit_exceeded")), saying()),
        ("rate_limited",),
        ("first/k1", "first/k2"),
    ),
    "overloaded: another model": Break(
        (broken(fails(type="overloaded_error")),), ("overloaded",), ("first/k1", "second/k1")
    ),
    "reset: another model": Break(
        (broken(Reset()),), ("connection_lost",), ("first/k1", "second/k1")
    ),
    "cut: another model": Break((broken(),), ("stream_truncated",), ("first/k1", "second/k1")),
    "both keys throttled, then another model": Break(
        (broken(fails(code="rate_limit_exceeded")),),
        ("rate_limited", "rate_limited"),
        ("first/k1", "first/k2", "second/k1"),
    ),
    "an unreadable event: the same again": Break(
        (broken(*[event('{"choices": [{"del')] * 3), saying()),
        ("malformed_event",),
        ("first/k1", "first/k1"),
    ),
}


@pytest.mark.parametrize("case", BREAKS.values(), ids=BREAKS)
async def test_after_a_break_the_reply_is_one_whole_answer_of_the_last_attempt(
    man: Doorman, edge: HttpEdge, case: Break
):
    turn = await play(man, edge, "break", *case.answers)
    assert tuple(turn.causes) == case.causes
    assert tuple(turn.requests) == case.requests
    assert isinstance(turn.end, TurnDone)
    assert turn.text == WHOLE
    assert [segment.seq for segment in turn.segments] == list(range(1, turn.end.count + 1))
    assert {segment.attempt for segment in turn.segments} == {len(case.causes) + 1}
    assert all(report.segments_sent for report in turn.reports)


async def test_where_nothing_follows_the_shown_text_stays(man: Doorman, edge: HttpEdge):
    turn = await play(man, edge, "stays", broken(fails(code="content_filter")))
    assert isinstance(turn.end, TurnFailed)
    assert (turn.end.cause, turn.end.count) == ("content_filter", 3)
    assert turn.text == "Paragraph 1.\n\nParagraph 2.\n\nParagraph 3."


async def test_a_stream_that_breaks_after_its_end_is_whole(man: Doorman, edge: HttpEdge):
    whole = stream(delta(content=WHOLE), delta("stop"), Reset())
    turn = await play(man, edge, "whole", whole)
    assert turn.causes == []
    assert turn.text == WHOLE


def refuses(name: str) -> Answer:
    error = {"message": f"Unsupported parameter: '{name}'", "param": name}
    return http(400, json.dumps({"error": error}))


async def test_a_vendor_may_refuse_one_parameter_after_the_other(man: Doorman, edge: HttpEdge):
    turn = await play(man, edge, "picky", refuses("temperature"), refuses("stop"), saying())
    first, second, third = (one.body for one in turn.asked)
    assert {"temperature", "stop"} <= set(first)
    assert "temperature" not in second
    assert "stop" in second
    assert not {"temperature", "stop"} & set(third)
    assert turn.text == WHOLE


async def test_a_throttle_is_waited_for_as_long_as_it_says(man: Doorman, edge: HttpEdge):
    throttled = http(429, "{}", **{"retry-after": "1"})
    started_s = time.monotonic()
    turn = await play(man, edge, "wait", throttled, saying(), chain=False)
    assert turn.requests == ["first/k1", "first/k1"]
    assert 1.0 <= time.monotonic() - started_s < 1.0 + SLACK_S
    assert turn.rests == [("rehearsal", "k1")]
    assert turn.text == WHOLE


async def test_nobody_waits_for_a_throttle_of_a_minute(man: Doorman, edge: HttpEdge):
    throttled = http(429, "{}", **{"retry-after": "60"})
    turn = await play(man, edge, "long", throttled, chain=False)
    assert turn.requests == ["first/k1"]
    assert isinstance(turn.end, TurnFailed)
    assert turn.end.cause == "rate_limited"
