"""The player: gives a performance its pace and its connection, and logs each write.

Comes in: the steps of a `Performance`. Goes out: an ASGI answer. Cancelling it leaves a body half
written, which is what a client sees of a dropped connection; a client that goes away ends the
playing at once and is logged as `left`.
"""

import asyncio
import time
from collections.abc import Iterator

from starlette.types import Receive, Scope, Send

from ops.rehearsal.log import Entry, Write
from ops.rehearsal.performance import Ending, Pause, Step, Written
from ops.rehearsal.values import Frame


class Pace:
    """When the next piece of text is due, counted from the first, so that delays do not add up."""

    def __init__(self, tokens_per_s: float, first_token_s: float) -> None:
        self._tokens_per_s = tokens_per_s
        self._due_s = time.monotonic() + first_token_s

    async def wait(self) -> None:
        """Sleeps until the next piece is due; without a speed only the first one waits."""
        pause_s = self._due_s - time.monotonic()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        if self._tokens_per_s > 0:
            self._due_s += 1 / self._tokens_per_s


class Playback:
    """One answer as an ASGI application."""

    def __init__(self, steps: Iterator[Step], media_type: str, pace: Pace, entry: Entry) -> None:
        self._steps = steps
        self._media_type = media_type
        self._pace = pace
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plays until the performance ends or the client goes away."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_until_disconnect(receive), name="rehearsal-watch")
            play = group.create_task(self._play(send), name="rehearsal-play")
            await asyncio.wait((watch, play), return_when=asyncio.FIRST_COMPLETED)
            if not play.done():
                self._entry.outcome = "left"
            watch.cancel()
            play.cancel()
        self._entry.ended_monotonic_s = time.monotonic()

    async def _play(self, send: Send) -> None:
        headers = [(b"content-type", self._media_type.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for step in self._steps:
            match step:
                case Written(frames):
                    await self._pace.wait()
                    for frame in frames:
                        await self._write(send, frame)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Ending(outcome, is_clean):
                    self._entry.outcome = outcome
                    if is_clean:
                        await send({"type": "http.response.body", "body": b""})
                    # Else the server drops the connection: the application left its body open.

    async def _write(self, send: Send, frame: Frame) -> None:
        await send({"type": "http.response.body", "body": frame.payload, "more_body": True})
        writes = self._entry.writes
        last = writes[-1] if writes else Write(0.0, 0.0, 0, 0)
        writes.append(
            Write(
                time.monotonic(),
                time.time(),
                last.end_byte + len(frame.payload),
                last.visible_chars + frame.visible_chars,
            )
        )


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
