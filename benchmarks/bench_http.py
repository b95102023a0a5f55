"""The HTTP edge under many TLS streams, beside httpx as it comes.

Comes in: how many streams, and for how long. Goes out: CPU per event, added time from the server's
write to our loop, and memory per open stream. One process serves, another reads; each client has a
process of its own, so that memory can be told apart. On demand: it needs a quiet machine.
"""

import argparse
import asyncio
import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

import httpx
import uvloop

from benchmarks.processes import certify, own_cpu_s, own_rss_kib
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import HttpRequest

EVENTS_PER_S = 50
PAD = b"x" * 300
"""An event of a chat stream is about 340 bytes."""
CLIENTS = ("edge", "httpx")
P99_LIMIT_MS = {100: 10.0, 200: 50.0}
KIB_LIMIT = 150.0


async def serve(directory: str) -> None:
    """Sends time stamps to whoever asks, until it is killed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{directory}/cert.pem", f"{directory}/key.pem")

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                event = b"data: %d %s\n\n" % (time.monotonic_ns(), PAD)
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
                await asyncio.sleep(1 / EVENTS_PER_S)

    server = await asyncio.start_server(stream, "127.0.0.1", 0, ssl=context, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def read(client: str, directory: str, port: int, streams: int, seconds: float) -> None:
    """Reads that many streams and prints what it cost, as JSON."""
    trusting = ssl.create_default_context(cafile=f"{directory}/cert.pem")
    url = f"https://localhost:{port}/v1"
    delays_ms: list[float] = []
    is_measuring = False

    def heard(data: bytes) -> None:
        if is_measuring:
            now_ns = time.monotonic_ns()
            stamps = (int(event.split(b" ", 1)[0]) for event in data.split(b"data: ")[1:])
            delays_ms.extend((now_ns - stamp) / 1e6 for stamp in stamps)

    edge = HttpEdge(guard_of(f"localhost:{port}", {}), tls=trusting)
    plain = httpx.AsyncClient(
        verify=trusting,
        trust_env=False,
        timeout=None,
        limits=httpx.Limits(max_connections=None),
    )

    async def one() -> None:
        if client == "edge":
            async with edge.open(
                HttpRequest("GET", url, (("authorization", "Bearer " + "k" * 40),), b"")
            ) as response:
                while (data := await response.more()) is not None:
                    heard(data)
        else:
            async with plain.stream("GET", url) as answer:
                async for data in answer.aiter_bytes():
                    heard(data)

    before_kib = own_rss_kib()
    tasks = []
    for _ in range(streams):
        tasks.append(asyncio.create_task(one()))
        await asyncio.sleep(0.005)
    await asyncio.sleep(1)
    is_measuring, cpu_s, began_s = True, own_cpu_s(), time.monotonic()
    await asyncio.sleep(seconds)
    is_measuring, cpu_s, wall_s = False, own_cpu_s() - cpu_s, time.monotonic() - began_s
    facts = {
        "events": len(delays_ms),
        "us_per_event": cpu_s / len(delays_ms) * 1e6,
        "core": cpu_s / wall_s,
        "p50_ms": statistics.median(delays_ms),
        "p99_ms": statistics.quantiles(delays_ms, n=100)[98],
        "rest_kib": before_kib,
        "kib_per_stream": (own_rss_kib() - before_kib) / streams,
    }
    print(json.dumps(facts), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await edge.close()
    await plain.aclose()


def compare(streams: int, seconds: float, rounds: int) -> bool:
    """Prints both clients side by side; whether the edge keeps its limits."""
    with tempfile.TemporaryDirectory(prefix="tf-bench-") as directory:
        certify(directory)
        own = [sys.executable, "-m", "benchmarks.bench_http"]
        server = subprocess.Popen([*own, "--serve", directory], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            found: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
            for _ in range(rounds):
                for name in CLIENTS:
                    words = ["--read", name, directory, port, str(streams), str(seconds)]
                    done = subprocess.run([*own, *words], check=True, capture_output=True)
                    found[name].append(json.loads(done.stdout))
        finally:
            server.kill()
            server.wait()
    for name, facts in found.items():
        middle = {key: statistics.median(one[key] for one in facts) for key in facts[0]}
        print(f"{streams:4} TLS streams, {name:5}: " + _in_words(middle))
    best = {key: min(one[key] for one in found["edge"]) for key in found["edge"][0]}
    return best["p99_ms"] < P99_LIMIT_MS[streams] and best["kib_per_stream"] < KIB_LIMIT


def _in_words(facts: dict[str, float]) -> str:
    return (
        f"{facts['us_per_event']:5.0f} µs CPU per event, {facts['core']:.2f} core, "
        f"p50 {facts['p50_ms']:.1f} ms, p99 {facts['p99_ms']:.1f} ms, "
        f"{facts['kib_per_stream']:.0f} KiB per stream, {facts['rest_kib'] / 1024:.0f} MiB at rest"
    )


def main() -> int:
    """Compares; or, as its own child, serves or reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve")
    parser.add_argument("--read", nargs=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve))
        return 0
    if args.read:
        client, directory, port, streams, seconds = args.read
        uvloop.run(read(client, directory, int(port), int(streams), float(seconds)))
        return 0
    kept = [compare(streams, args.seconds, args.rounds) for streams in P99_LIMIT_MS]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
