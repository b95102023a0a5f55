"""The stage of the whole-turn bench: a fake Discord, a provider, and whoever answers.

Comes in: a number of turns at once. Goes out: for each message that reached Discord, how long after
the provider had written the byte that completed it; CPU seconds and memory by process. Discord runs
in the bench's own process, so that its receipts and the provider's writes read one clock.
"""

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import httpx
import msgspec

from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.log import Write

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
RAMP_S = 1.0
"""The turns of a level begin spread over this time, as people do, not in one instant."""
LIMIT_S = 90.0
POLL_S = 0.05
SETTLE_S = 1.0
"""From a bot's session to the moment when it knows its guilds."""
OPEN_RATES = Rates(channel_limit=50, channel_period_s=1.0, global_per_s=1_000_000)
"""What the house adds is measured, not what Discord withholds."""

Pids = dict[str, list[int]]
"""Process ids by the name that the report shows."""


class Level(msgspec.Struct, kw_only=True):
    """What one level showed: milliseconds per message, CPU seconds and bytes by process.

    `stage_s` is what the provider and Discord took of the same cores: nobody's cost, but a machine
    that is full of them measures its own queue. `commands`, as clients send them to Redis, are
    counted for one level, which is played again for it.
    """

    turns: int
    tokens: int
    seconds: float
    added_ms: list[float]
    cpu_s: dict[str, float]
    grown_bytes: dict[str, int]
    stage_s: dict[str, float] = {}
    commands: int = 0

    @property
    def cores(self) -> float:
        """How much of the machine was taken, by everything together."""
        return (sum(self.cpu_s.values()) + sum(self.stage_s.values())) / self.seconds


class _Entry(msgspec.Struct):
    body: msgspec.Raw
    writes: list[Write]


class Stage:
    """A fake Discord with a guild and a channel for each turn.

    Args:
        discord: running.
        provider_url: of the rehearsal provider.
        text: what the provider says, whole.
        provider: the provider's process.
    """

    def __init__(self, discord: FakeDiscord, provider_url: str, text: str, provider: int) -> None:
        self.discord = discord
        self._own = {"provider": [provider], "discord": [os.getpid()]}
        self._client = httpx.AsyncClient(base_url=provider_url, timeout=30.0)
        self._text = text
        self._asked = 0
        self._person = discord.world.add_user("asker")

    async def is_joined(self) -> None:
        """Waits until a bot has its session."""
        await until(lambda: bool(self.discord.sockets.sessions))
        await asyncio.sleep(SETTLE_S)

    async def play(self, turns: int, channels: Sequence[int], pids: Pids) -> Level:
        """Asks in so many channels at once, and waits for every reply."""
        await self._client.delete("/rehearsal/log")
        before_s, before_bytes = cpu_s(pids | self._own), rss_bytes(pids)
        began_s = time.monotonic()
        marks: dict[int, str] = {}
        for number, channel in enumerate(channels[:turns]):
            await asyncio.sleep(max(0.0, began_s + RAMP_S * number / turns - time.monotonic()))
            self._asked += 1
            marks[channel] = f"Question {self._asked}, please."
            await self.discord.say(channel, self._person, self.discord.mention(marks[channel]))
        peak = await self._until_answered(list(marks), pids)
        seconds = time.monotonic() - began_s
        after_s = cpu_s(pids | self._own)
        added, tokens = await self._added_ms(marks)
        self._forget(marks)
        return Level(
            turns=turns,
            tokens=tokens,
            seconds=seconds,
            added_ms=added,
            cpu_s={name: after_s[name] - before_s[name] for name in pids},
            stage_s={name: after_s[name] - before_s[name] for name in self._own},
            grown_bytes={name: peak[name] - before_bytes[name] for name in pids},
        )

    async def aclose(self) -> None:
        """Closes the client; Discord goes on."""
        await self._client.aclose()

    async def _until_answered(self, channels: list[int], pids: Pids) -> dict[str, int]:
        peak = rss_bytes(pids)
        waiting = list(channels)

        def look() -> bool:
            now = rss_bytes(pids)
            peak.update({name: max(peak[name], now[name]) for name in pids})
            # Only those, and counted once: this runs in Discord's own process, whose time is
            # the bot's waiting.
            waiting[:] = [channel for channel in waiting if not self._is_whole(channel)]
            return not waiting

        await until(look)
        return peak

    def _is_whole(self, channel: int) -> bool:
        shown = sum(_bare_chars(message.content) for message in self.discord.replies(channel))
        return shown >= _bare_chars(self._text)

    async def _added_ms(self, marks: Mapping[int, str]) -> tuple[list[float], int]:
        answer = await self._client.get("/rehearsal/log")
        entries = msgspec.json.decode(answer.content, type=list[_Entry])
        added: list[float] = []
        tokens = 0
        for channel, mark in marks.items():
            writes = next(e.writes for e in entries if mark.encode() in bytes(e.body))
            tokens += len(writes)
            added += self._late_ms(channel, writes)
        return added, tokens

    def _late_ms(self, channel: int, writes: list[Write]) -> list[float]:
        """For each message of a channel, how long after its completing byte it arrived.

        A message is complete with the first character behind it: until that one is written nobody
        can know that the paragraph, or the 2,000 characters, end here. The last one is complete
        with the provider's last byte.
        """
        ends = [write.visible_chars for write in writes]
        late: list[float] = []
        at = 0
        for message in self.discord.replies(channel):
            at = _end_of(message.content, self._text, at)
            rest = len(self._text[at:]) - len(self._text[at:].lstrip())
            is_last = at + rest >= len(self._text)
            place = len(writes) - 1 if is_last else bisect_left(ends, at + 1)
            late.append((message.created_s - writes[place].wall_s) * 1000)
        return late

    def _forget(self, marks: Mapping[int, str]) -> None:
        for channel in marks:
            self.discord.world.messages[channel].clear()


async def until(holds: Callable[[], bool]) -> None:
    """Looks every now and then. Raises `TimeoutError` after `LIMIT_S`."""
    async with asyncio.timeout(LIMIT_S):
        # Other processes set no event of ours.
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


@cache
def _bare_chars(text: str) -> int:
    """Characters that are no white space; of an essay there are few different pieces."""
    return len("".join(text.split()))


def _end_of(content: str, text: str, start: int) -> int:
    """Where a message's text ends in the whole, whatever white space was trimmed between."""
    wanted = _bare_chars(content)
    at = start
    while wanted:
        wanted -= not text[at].isspace()
        at += 1
    return at


def cpu_s(pids: Pids) -> dict[str, float]:
    """User and system time of each group of processes so far, in steps of 10 ms."""
    return {name: sum(map(_cpu_s, group)) for name, group in pids.items()}


def rss_bytes(pids: Pids) -> dict[str, int]:
    """Resident memory of each group of processes."""
    return {name: sum(map(_rss_bytes, group)) for name, group in pids.items()}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE_BYTES


@asynccontextmanager
async def open_discord(channels: int) -> AsyncIterator[tuple[FakeDiscord, list[int]]]:
    """A fake Discord without limits, and the ids of its channels, each in a guild of its own."""
    discord = FakeDiscord(rates=OPEN_RATES)
    ids = [
        discord.world.add_channel(discord.world.add_guild(f"guild {number}").id).id
        for number in range(channels)
    ]
    await discord.start()
    try:
        yield discord, ids
    finally:
        await discord.stop()
