"""The two ends of the worker bench: a provider of many TLS streams, and a worker that reads them.

Comes in: a number of streams. Goes out: facts as JSON on stdout. The provider writes all streams
from one wheel of slots, so that it takes less of its core than the worker does of the other.
"""

import asyncio
import json
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from benchmarks.measure import measure
from benchmarks.processes import own_cpu_s, own_rss_kib
from shared.collector import set_apart
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.edges.streams import TailReader
from shared.keys import Keys
from shared.turns import Target
from shared.wire import decode_turn_request
from tests.support.servers import running_server
from tests.support.turn_ports import KeepingReporter, PlayedPools, runner
from tests.support.turns import claim_one, turn, with_policy
from worker.edges.fleet.lease import Lease
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge, HttpResponse
from worker.edges.outbox import Outbox
from worker.providers.requests import Endpoint, HttpRequest
from worker.turn.pipeline import pipeline_for
from worker.turn.ports import TimeLimits

CLIENTS = ("worker", "bare")
EVENTS_PER_S = 50
SLOT_S = 0.001
SLOTS = round(1 / EVENTS_PER_S / SLOT_S)
TEXTS = [*("word and ",) * 40, "end.\n\n"]
"""A paragraph a second, about: a segment for every forty events."""
LONG = TimeLimits(first_byte_s=60, between_chunks_s=60, whole_stream_s=600, turn_deadline_s=600)
MANY = 10_000_000
_beginnings = count(step=7)
"""Where in the text a stream begins: people do not all end their paragraphs at once."""
STAMP = b'"created":'


def event(number: int, now_ns: int) -> bytes:
    """An event of a chat stream, about 330 bytes; its time stands where vendors put seconds."""
    text = json.dumps(TEXTS[number % len(TEXTS)])
    return (
        b'data: {"id":"chatcmpl-8f2c51d09b7e4a6f","object":"chat.completion.chunk","created":%d,'
        b'"model":"bench","service_tier":"default","system_fingerprint":"fp_50ce2a49b1",'
        b'"choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}],'
        b'"usage":null,"obfuscation":"r2Xc9Qp0LwZk8mNd5TvHs3JyBf7aGe1u"}\n\n'
        % (now_ns, text.encode())
    )


class _Stream(asyncio.Protocol):
    """One client of the provider."""

    def __init__(self, slots: list[set["_Stream"]]) -> None:
        self._slots = slots
        self._count = next(_beginnings)
        self._slot = slots[0]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._way: Any = transport

    def data_received(self, data: bytes) -> None:
        if b"\r\n\r\n" in data:
            self._way.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
            )
            self._slot = min(self._slots, key=len)
            self._slot.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._slot.discard(self)

    def say(self) -> None:
        """Writes one event."""
        data = event(self._count, time.monotonic_ns())
        self._count += 1
        self._way.write(b"%x\r\n%s\r\n" % (len(data), data))


async def serve(directory: str) -> None:
    """Streams to whoever asks, until it is killed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{directory}/cert.pem", f"{directory}/key.pem")
    slots: list[set[_Stream]] = [set() for _ in range(SLOTS)]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Stream(slots), "127.0.0.1", 0, ssl=context, backlog=2000
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    due_s, turn_of = loop.time(), 0
    while True:
        due_s += SLOT_S
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        for stream in list(slots[turn_of % SLOTS]):
            stream.say()
        turn_of += 1


class _Timed:
    """A response that notes when its reader comes back for more: then the last bytes are done."""

    def __init__(self, response: HttpResponse, delays_ms: list[float]) -> None:
        self.status, self.headers = response.status, response.headers
        self.interrupt, self.error_body = response.interrupt, response.error_body
        self._more = response.more
        self._delays_ms = delays_ms
        self._last = b""

    async def more(self) -> bytes | None:
        """What has come since."""
        if self._last:
            now_ns = time.monotonic_ns()
            for part in self._last.split(STAMP)[1:]:
                self._delays_ms.append((now_ns - int(part[: part.index(b",")])) / 1e6)
        data = await self._more()
        self._last = data or b""
        return data


class _TimedEdge:
    """The HTTP edge, its responses timed."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge
        self.delays_ms: list[float] = []

    @asynccontextmanager
    async def open(self, request: HttpRequest) -> AsyncIterator[_Timed]:
        """Sends a request and waits for the headers."""
        async with self._edge.open(request) as response:
            yield _Timed(response, self.delays_ms)


async def read(client: str, directory: str, port: int, streams: int, seconds: float) -> None:
    """Reads that many streams and prints what it cost, as JSON."""
    trusting = ssl.create_default_context(cafile=f"{directory}/cert.pem")
    url = f"https://localhost:{port}/v1"
    edge = _TimedEdge(HttpEdge(guard_of(f"localhost:{port}", {}), tls=trusting))
    with running_server("redis", appendfsync="everysec") as server:
        redis = connect(server.url, batching=True)
        many = {"guild_depth": MANY, "guild_running": MANY, "key_running": MANY, "lease_ms": MANY}
        queue = with_policy(TurnQueue(redis, Keys(), Settings()), **many)
        queue.out_max_entries = MANY  # nobody reads them here
        works = _worker if client == "worker" else _bare
        await redis.ping()
        set_apart()
        before_kib = own_rss_kib()
        tasks = [asyncio.create_task(works(edge, queue, url, number)) for number in range(streams)]
        await _grown(edge.delays_ms, streams * EVENTS_PER_S)  # all are connected, and warm
        edge.delays_ms.clear()
        cpu_s, began_s = own_cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        cpu_s, wall_s = own_cpu_s() - cpu_s, time.monotonic() - began_s
        events = len(edge.delays_ms)
        facts = {
            "us_per_event": cpu_s / events * 1e6,
            "core": cpu_s / wall_s,
            "p50_ms": statistics.median(edge.delays_ms),
            "p99_ms": statistics.quantiles(edge.delays_ms, n=100)[98],
            "rest_mib": before_kib / 1024,
            "kib_per_stream": (own_rss_kib() - before_kib) / streams,
        }
        print(json.dumps(facts), flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await redis.aclose()


async def _worker(edge: _TimedEdge, queue: TurnQueue, url: str, number: int) -> None:
    """One turn, with everything that a worker does for it."""
    await queue.admit(turn(f"l{number + 1}", channel=number + 1))
    lease = Lease(await claim_one(queue))
    outbox = Outbox(queue, TurnRecords(queue.redis, queue.keys), lease)
    running = runner(edge, KeepingReporter(), limits=LONG)
    running.keys = PlayedPools(Endpoint(base_url=url))
    await running.run(decode_turn_request(lease.request), outbox, lease.stopped)


async def _bare(edge: _TimedEdge, _queue: TurnQueue, url: str, _number: int) -> None:
    """The client alone: what comes is thrown away."""
    async with edge.open(HttpRequest("POST", url, (), b"{}")) as response:
        while await response.more() is not None:
            pass


async def _grown(found: Sequence[object], size: int) -> None:
    # Nobody is told of each event.
    while len(found) < size:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _chunks(count: int) -> list[bytes]:
    return [event(number, 0) for number in range(count)]


def rooms_us() -> float:
    """Microseconds of CPU for normalizer and buffer, for each delta."""
    chunks = _chunks(2_000)

    def alone() -> None:
        pipeline = pipeline_for(turn(), Target(provider="rehearsal", model="m"), 1)
        normalize, buffer = pipeline.normalizer.feed, pipeline.buffer.feed
        for chunk in chunks:
            for found in normalize(chunk):
                if (text := getattr(found, "delta", "")) is not None:
                    buffer(text)

    return measure({"rooms": alone}, 5)["rooms"].median / len(chunks) * 1e6


def spin(seconds: float) -> dict[str, float]:
    """All rooms over streams in memory, as fast as one process can."""
    chunks, count = _chunks(2_000), 0
    cpu_s, began_s = time.process_time(), time.monotonic()
    while time.monotonic() - began_s < seconds:
        pipeline = pipeline_for(turn(), Target(provider="rehearsal", model="m"), 1)
        for chunk in chunks:
            pipeline.feed(chunk)
        count += len(chunks)
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - began_s
    return {"us_per_event": cpu_s / count * 1e6, "events_per_s": count / wall_s}


async def hop(times: int) -> list[float]:
    """Milliseconds from an append to its reader, one at a time."""
    taken: list[float] = []
    with running_server("redis") as server:
        redis, blocking = connect(server.url), connect(server.url, blocking=True)
        reader = TailReader(redis, blocking, stream="bench")
        for _ in range(times):
            waiting = asyncio.create_task(reader.read())
            await asyncio.sleep(0.002)  # the reader waits in the server
            sent_ns = time.monotonic_ns()
            await redis.xadd("bench", {"data": b"x" * 300})
            await waiting
            taken.append((time.monotonic_ns() - sent_ns) / 1e6)
        await redis.aclose()
        await blocking.aclose()
    return taken
