"""The largest replies over a real socket: what is shown of them, what is refused, what they take.

A worker has 512 MiB in the manifests (k8s/base/worker.yaml), and about 60 of them at rest.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from shared.causes import Cause
from shared.errors import EndpointError
from shared.turns import TurnState
from tests.support.http_server import HEAD, Handler, serving
from tests.support.large_replies import LARGEST, line, picture, pictures, read, texts
from worker.edges import http
from worker.edges.http import LARGE_BODIES_BYTES, MAX_BODY_BYTES, PLAIN_BODY_BYTES, HttpResponse
from worker.normalize.sse import MAX_LINE_BYTES
from worker.turn.pictures import MAX_PICTURES

PROVIDERS_OWN = 3 * 1024 * 1024 // 4 * 3
"""Bytes of a picture that is 3 MiB of base64, as Gemini sends them at 2K."""


def saying(lines: Iterable[bytes]) -> Handler:
    async def handler(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"connection: close\r\n\r\n")
        for one in lines:
            writer.write(one)
            await writer.drain()

    return handler


def address(url: str) -> str:
    return url.removesuffix("/v1")


@pytest.mark.parametrize(
    "sizes",
    [(PROVIDERS_OWN,) * 3, (LARGEST,) * MAX_PICTURES],
    ids=["three as Gemini sends them", "as many and as large as there may be"],
)
async def test_pictures_within_the_limits_are_all_shown(sizes: tuple[int, ...]):
    async with serving(saying(pictures(*sizes))) as (_, request):
        outcome, outbox, reporter = await read(address(request.url))
    assert outcome.state is TurnState.DONE
    assert reporter.reports == []
    assert [len(data) for data in outbox.pictures.values()] == list(sizes)
    assert [one.filename for one in outbox.segments if one.picture] == [
        f"picture-{number + 1}.png" for number in range(len(sizes))
    ]


async def test_a_picture_that_no_line_holds_ends_the_reply_by_its_limit():
    lines = [picture(MAX_LINE_BYTES // 4 * 3 + 3), line({"text": "Done."}, "STOP")]
    async with serving(saying(lines)) as (_, request):
        outcome, outbox, _ = await read(address(request.url))
    assert (outcome.state, outcome.cause) == (TurnState.FAILED, Cause.LIMIT_EXCEEDED)
    assert outbox.pictures == {}


async def size_of(response: HttpResponse) -> int:
    size = 0
    while (data := await response.more()) is not None:
        size += len(data)
    return size


@pytest.mark.parametrize("more", [0, 1], ids=["as long as it may be", "a byte more"])
async def test_a_body_may_be_as_long_as_what_the_rooms_read(more: int):
    step = b"x" * (1024 * 1024)
    steps = [step] * (MAX_BODY_BYTES // len(step)) + [b"x" * more]
    async with serving(saying(steps)) as (edge, request), edge.open(request) as response:
        if not more:
            assert await size_of(response) == MAX_BODY_BYTES
            return
        with pytest.raises(EndpointError) as caught:
            await size_of(response)
        assert caught.value.exception == "BodyTooLarge"


async def test_large_bodies_share_their_room_and_give_it_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "LARGE_BODIES_BYTES", 1000)
    body = [b"x" * (PLAIN_BODY_BYTES + 600)]
    async with serving(saying(body)) as (edge, request):
        async with edge.open(request) as first, edge.open(request) as second:
            assert await size_of(first) == PLAIN_BODY_BYTES + 600
            with pytest.raises(EndpointError) as caught:
                await size_of(second)
            assert caught.value.exception == "BodyTooLarge"
            async with edge.open(request) as third:  # what every stream may have, it has
                assert await third.more()
        async with edge.open(request) as again:
            assert await size_of(again) == PLAIN_BODY_BYTES + 600


def test_the_room_of_large_bodies_holds_one_that_is_as_long_as_it_may_be():
    assert PLAIN_BODY_BYTES + LARGE_BODIES_BYTES >= MAX_BODY_BYTES


PEAKS = {
    "the largest pictures": (lambda: pictures(*[LARGEST] * MAX_PICTURES), TurnState.DONE, 130),
    "pictures beyond what is shown": (lambda: pictures(*[LARGEST] * 7), TurnState.DONE, 170),
    "text without end": (lambda: texts(7), TurnState.FAILED, 90),
}
"""What is sent, how it ends, and the MiB that it may take: half as much again as was measured."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a peak")
@pytest.mark.parametrize(("lines", "state", "limit_mib"), PEAKS.values(), ids=PEAKS)
async def test_what_the_largest_replies_take(lines, state: TurnState, limit_mib: int):
    async with serving(saying(lines())) as (_, request):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.large_replies",
            address(request.url),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    said = json.loads(out)
    assert said["state"] == state
    assert said["grown_mib"] < limit_mib
