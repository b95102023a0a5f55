"""What turnfleet adds to a reply, through the whole house: gateway, Redis, worker and back.

For each segment: when the channel had it, minus when the provider wrote the byte that completed it.
Which byte that is follows from the segment room, fed one character at a time beforehand. Channel
times are ids of its change stream (whole milliseconds); both clocks are this machine's.

Run: `python -m benchmarks.bench_added_time [--turns 40]`.
"""

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any

import httpx
import msgspec

from ops.rehearsal.log import Write
from shared.edges.local_channel import ChangeKind, local_turn_id
from shared.turns import TRANSITIONS, Target
from tests.support.house import House, house
from tests.support.servers import running_server
from worker.segments.buffer import SegmentBuffer

TOKENS_PER_S = 50
CONCURRENT = (1, 20, 60)
PROMPT = "\n\n".join(
    f"Paragraph {number} has a few words, and then it comes to its end." for number in range(1, 7)
)
LIMIT_S = 120.0
POLL_S = 0.02


class _Entry(msgspec.Struct):
    body: msgspec.Raw
    writes: list[Write]


def completing_chars(text: str) -> list[int | None]:
    """For each segment, after how many characters it comes out; None: only at the end."""
    buffer = SegmentBuffer("l1", 1)
    places: list[int | None] = []
    for count, char in enumerate(text, start=1):
        places += [count] * len(buffer.feed(char))
    return places + [None] * len(buffer.flush())


def written_s(writes: list[Write], place: int | None) -> float:
    """When the provider wrote the byte that completed a segment."""
    if place is None:
        return writes[-1].wall_s
    return next(write.wall_s for write in writes if write.visible_chars >= place)


async def talk(running: House, channel: int, mark: str) -> str:
    """One turn, until it has ended; gives the prompt."""
    prompt = f"{mark}\n\n{PROMPT}"
    target = Target(provider="rehearsal", model=f"echo@{TOKENS_PER_S}")
    message = await running.channel.say(
        channel, prompt, user_id=1, guild_id=channel % 20, target=target
    )
    turn_id = local_turn_id(message)
    while True:
        state = await running.records.state(turn_id)
        if state is not None and not TRANSITIONS[state]:
            return prompt
        await asyncio.sleep(POLL_S)


async def shown_s(running: House, channel: int, count: int) -> list[float]:
    """When the channel had each of the paragraphs; a gateway that lags shows several in one."""
    moments: list[float] = []
    async for change in running.channel.watch(channel):
        if change.kind is ChangeKind.POSTED and change.message and change.message.is_bot:
            paragraphs = change.message.text.count("\n\n") + 1
            moments += [int(change.cursor.split("-")[0]) / 1000] * paragraphs
            if len(moments) >= count:
                return moments
    return moments


async def added_ms(
    running: House, client: httpx.AsyncClient, at_once: int, first: int
) -> list[float]:
    """The added times of `at_once` turns that run side by side."""
    channels = range(first, first + at_once)
    marks = {channel: f"Mark {channel}." for channel in channels}
    async with asyncio.timeout(LIMIT_S):
        prompts = await asyncio.gather(*(talk(running, c, marks[c]) for c in channels))
        entries = msgspec.json.decode(
            (await client.get("/rehearsal/log")).content, type=list[_Entry]
        )
        added: list[float] = []
        for channel, prompt in zip(channels, prompts, strict=True):
            places = completing_chars(prompt)
            mark = f"Mark {channel}.".encode()
            entry = next(e for e in entries if mark in bytes(e.body))
            moments = await shown_s(running, channel, len(places))
            added += [
                (moment - written_s(entry.writes, place)) * 1000
                for moment, place in zip(moments, places, strict=True)
            ]
    return added


def words(times: list[float]) -> str:
    """Median, p99 and maximum, in milliseconds."""
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(ordered):.1f} / {p99:.1f} / {ordered[-1]:.1f} ms"


async def measure(turns: int) -> dict[int, list[float]]:
    """All cases on one house."""
    found: dict[int, list[float]] = {}
    with running_server("redis") as server:
        async with house(server.url, workers=2) as running:
            base = (running.home / "rehearsal.url").read_text().strip()
            async with httpx.AsyncClient(base_url=base) as client:
                first = 1
                for at_once in CONCURRENT:
                    times: list[float] = []
                    for _ in range(max(1, turns // at_once)):
                        await client.delete("/rehearsal/log")
                        times += await added_ms(running, client, at_once, first)
                        first += at_once
                    found[at_once] = times
    return found


def main() -> int:
    """Prints one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    chosen = parser.parse_args()
    began_s = time.monotonic()
    found: dict[int, Any] = asyncio.run(measure(chosen.turns))
    print("added time: channel minus provider's write; median / p99 / maximum")
    for at_once, times in found.items():
        print(f"{at_once:3} turns at once, {len(times):4} segments: {words(times)}")
    print(f"({time.monotonic() - began_s:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
