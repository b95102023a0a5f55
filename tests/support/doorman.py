"""A provider that fails as it is told, on a real socket: bytes, silence, drops and breaks.

Comes in: what each model answers, by the first part of the path, so that many turns can run at
once. Goes out: what was asked, in order.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

WHOLE = "The whole answer."


class Wait(msgspec.Struct, frozen=True):
    """Nothing is written for so long."""

    seconds: float


class Drip(msgspec.Struct, frozen=True):
    """The same bytes again and again, for ever."""

    data: bytes
    every_s: float


class Reset(msgspec.Struct, frozen=True):
    """The connection is reset, as by a host that dies."""


KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
SILENCE = Wait(3600.0)
Step = bytes | Wait | Drip | Reset
Answer = tuple[Step, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    model: str
    key: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """The request in short."""
        return f"{self.model}/{self.key}"


def http(status: int, body: str, **headers: str) -> Answer:
    """An answer that is no stream; asked again at once, as its header says."""
    lines = {"content-type": "application/json", "retry-after": "0", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    payload = body.encode()
    return (
        f"HTTP/1.1 {status} Answer\r\n{head}content-length: {len(payload)}\r\n\r\n".encode()
        + payload,
    )


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(data: object) -> bytes:
    """One event of a stream."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def delta(finish: str | None = None, **delta: object) -> bytes:
    """A delta of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "c", "model": "m", "choices": [choice]})


def stream(*steps: Step) -> Answer:
    """A stream that closes after its last step."""
    return (HEAD, *steps)


def saying(text: str = WHOLE) -> Answer:
    """A whole answer in words."""
    return stream(delta(content=text), delta("stop"), event("[DONE]"))


class Doorman:
    """The server.

    Attributes:
        answers: what a model answers under a path, call after call, the last one for ever.
        log: what was asked under a path.
        closed: paths whose connections the other side has closed while they were served.
    """

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[tuple[str, str], Sequence[Answer]] = {}
        self.log: dict[str, list[Asked]] = {}
        self.closed: set[str] = set()
        self._visits: set[asyncio.Task[None]] = set()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def asked(self, path: str) -> list[Asked]:
        return self.log.setdefault(path, [])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:] if line)
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        target = head.split(" ")[1]
        path = target.split("/")[1]
        model = body.get("model") or target.rpartition("/")[2].partition(":")[0]
        keys = [headers[name] for name in KEY_HEADERS if name in headers]
        asked = self.asked(path)
        before = [one for one in asked if one.model == model]
        asked.append(Asked(model=model, key=keys[0].removeprefix("bearer "), body=body))
        answers = self.answers.get((path, model), (saying(),))
        for step in answers[min(len(before), len(answers) - 1)]:
            if not await self._play(step, reader, writer):
                self.closed.add(path)
                return

    async def _play(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Plays a step; False when the other side has left meanwhile."""
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
                return True
            case Wait(seconds=seconds):
                return not await _leaves(reader, seconds)
            case Drip(data=data, every_s=every_s):
                while not await _leaves(reader, every_s):
                    writer.write(data)
                return False
            case Reset():
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return True

    async def end(self) -> None:
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)


async def _leaves(reader: asyncio.StreamReader, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await reader.read(1) == b""
    except TimeoutError:
        return False


@asynccontextmanager
async def doorman() -> AsyncIterator[Doorman]:
    """A running doorman."""
    man = Doorman()
    server = await asyncio.start_server(man.serve, "127.0.0.1", 0)
    man.port = server.sockets[0].getsockname()[1]
    try:
        yield man
    finally:
        server.close()
        await man.end()
