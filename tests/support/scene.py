"""A scenario of the failure suite: people talk in a house, something is done to it, all is judged.

Comes in: a running `House` and a front. Goes out: ways to ask, to wait and to strike, and in the
end all that `tests.support.aftermath` looks at.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from ops.store.engine import Database
from shared.edges.policy import LEASE_MS
from shared.edges.queue import Admission
from shared.errors import StoreError
from shared.messages import Message, Role
from shared.turns import TRANSITIONS, Front, Route, Target, TurnRequest, TurnState
from tests.support.fronts import Talk, paragraphs
from tests.support.house import House, Process
from tests.support.postgres import PostgresServer
from tests.support.servers import RedisServer

AWAY = (RedisError, StoreError, OSError)
"""What a look at a server that is away raises."""
MARK = "plum-tree"
"""In every prompt: no log may have it."""
KEY = "sk-" + "plum" + "Zq7Yw2Vx9Km4Rt8Lp3Nb6"
"""The workers' provider key, put together so that no scanner takes it for one. In no log either."""
RECOVERY_S = LEASE_MS / 1000 + 2.0
"""From the death of a worker until another one has its turn."""
SILENCE_S = 10.0
"""What a user may wait for a first sign (DESIGN: the silence bound)."""
LIMIT_S = 120.0
LOOK_S = 0.05


class Prompt:
    """One prompt, and the reply that is due."""

    def __init__(self, turn_id: str, channel: int, parts: tuple[str, ...]) -> None:
        self.turn_id = turn_id
        self.channel = channel
        self.parts = parts
        self.may_end = frozenset({TurnState.DONE})
        self.is_echoed = True
        """The reply is the prompt's own text."""
        self.is_readable = True
        """This version understands what was asked, so that it can be replayed."""


class Scene:
    """One scenario in a house that others may have used before."""

    def __init__(
        self,
        house: House,
        server: RedisServer,
        talk: Talk,
        database: Database,
        postgres: PostgresServer | None,
        seed: int,
    ) -> None:
        self.house = house
        self.server = server
        self.talk = talk
        self.database = database
        self.postgres = postgres
        self.random = random.Random(seed)
        self.prompts: list[Prompt] = []
        self.guilds: dict[int, int] = {}
        self.deeds: list[str] = []
        self.recoveries_s: list[float] = []
        self.silence_s = SILENCE_S
        self.recovery_s = RECOVERY_S
        self.exits_may_be: frozenset[int] = frozenset()
        self.peaks: dict[str, int] = {}
        self.cap = 0
        self._begun_s = time.monotonic()
        self.log_sizes = {p.log: p.log.stat().st_size for p in house.processes}
        self.exits_before = {p.name: len(p.unexpected) for p in house.processes}

    # People

    async def channel(self, guild: int = 1) -> int:
        """A new channel."""
        channel = await self.talk.open(guild)
        self.guilds[channel] = guild
        return channel

    async def ask(
        self, channel: int | None = None, *, model: str = "echo@60", parts: int = 3, words: int = 6
    ) -> Prompt:
        """Writes a prompt whose reply is its own paragraphs."""
        channel = channel if channel is not None else await self.channel()
        name = f"{len(self.prompts)}-{self.random.randrange(16**6):06x}"
        texts = tuple(
            f"Part {part} of {name} " + " ".join([MARK] * words) + "."
            for part in range(1, parts + 1)
        )
        text, nonce = "\n\n".join(texts), f"ask-{self.random.randrange(16**12):012x}"
        while True:
            try:
                turn_id = await self.talk.say(channel, self.guilds[channel], text, model, nonce)
            except AWAY:
                await asyncio.sleep(0.1)
            else:
                prompt = Prompt(turn_id, channel, texts)
                self.prompts.append(prompt)
                return prompt

    async def ask_many(
        self, count: int, channels: list[int], *, model: str = "echo@60", pause_s: float = 0.05
    ) -> list[Prompt]:
        """Writes prompts into channels in turn, with pauses of about `pause_s`."""
        asked = []
        for number in range(count):
            asked.append(await self.ask(channels[number % len(channels)], model=model))
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
        return asked

    async def admit(
        self,
        model: str,
        *,
        channel: int | None = None,
        fallbacks: tuple[str, ...] = (),
        text: str = "",
    ) -> Prompt:
        """Puts a turn of a local channel into the queue, past the gateway."""
        channel = channel if channel is not None else await self.channel()
        turn_id = f"l{9_000_000_000 + self.random.randrange(10**9)}"
        texts = tuple(f"Part {part} of {turn_id} {MARK}." for part in range(1, 4))
        request = TurnRequest(
            turn_id=turn_id,
            route=Route(
                front=Front.LOCAL, channel_id=channel, user_id=9, guild_id=self.guilds[channel]
            ),
            target=Target(provider="rehearsal", model=model),
            fallbacks=tuple(Target(provider="rehearsal", model=name) for name in fallbacks),
            messages=[Message(role=Role.USER, content=text or "\n\n".join(texts))],
            created_ms=time.time_ns() // 1_000_000,
        )
        assert await self.house.queue.admit(request) is Admission.ACCEPTED
        prompt = Prompt(turn_id, channel, texts)
        self.prompts.append(prompt)
        return prompt

    def known_texts(self, channel: int) -> set[str]:
        """Every paragraph that is due to somebody in a channel."""
        return {part for p in self.prompts if p.channel == channel for part in p.parts}

    # Deeds

    def note(self, deed: str) -> None:
        """Writes a deed down, for the history of a failure."""
        self.deeds.append(f"{time.monotonic() - self._begun_s:7.2f} s  {deed}")

    async def kill(self, process: Process) -> None:
        """SIGKILL, and a new process at once."""
        self.note(f"SIGKILL {process.name}")
        process.kill()
        await asyncio.to_thread(process.start)

    async def end(self, process: Process) -> None:
        """SIGTERM, an orderly end, and a new process."""
        await self.leave(process)
        await asyncio.to_thread(process.start)

    async def leave(self, process: Process) -> None:
        """SIGTERM, and an orderly end, once the process has begun its work."""

        async def is_up() -> bool:
            return process.pid in [one.pid for one in await self.house.records.processes()]

        await self.until(is_up)
        self.note(f"SIGTERM {process.name}")
        code = await asyncio.to_thread(process.stop)
        if code != 0:
            process.unexpected.append(-1 if code is None else code)

    @asynccontextmanager
    async def stopped(self, *processes: Process | RedisServer) -> AsyncIterator[None]:
        """SIGSTOP of processes, until the end of the block."""
        pids = [process.pid for process in processes]
        self.note(f"SIGSTOP {[getattr(process, 'name', 'server') for process in processes]}")
        for process in processes:
            process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self.note("SIGCONT")

    async def crashes(self) -> int:
        """How many crashes are counted for all that was asked."""
        records = [await self.house.records.turn(prompt.turn_id) for prompt in self.prompts]
        return sum(record.crashes for record in records if record is not None)

    async def restart_server(self, down_s: float) -> None:
        """kill -9 of the server, and the same again after a while."""
        self.note(f"SIGKILL server for {down_s:.1f} s")
        self.server.kill()
        await asyncio.sleep(down_s)
        await asyncio.to_thread(self.server.start)

    # Looking

    async def holder(self, prompt: Prompt) -> Process:
        """The worker that runs a turn."""
        record = await self.house.records.turn(prompt.turn_id)
        assert record is not None
        return next(w for w in self.house.workers if f"-{w.pid}-" in record.worker_id)

    async def texts(self, prompt: Prompt) -> list[str]:
        """What the channel shows of a reply."""
        shown = paragraphs(await self.talk.shown(prompt.channel))
        return [text for text in shown if text in prompt.parts]

    async def until(self, check: Callable[[], Awaitable[bool]], limit_s: float = LIMIT_S) -> float:
        """Waits for something to be true; answers how long it took."""
        begun = time.monotonic()
        async with asyncio.timeout(limit_s):
            while True:
                self._look()
                try:
                    if await check():
                        return time.monotonic() - begun
                except AWAY:
                    pass
                await asyncio.sleep(LOOK_S)

    async def until_shown(self, prompt: Prompt, count: int = 1) -> float:
        """Waits until so many messages of a reply are there."""

        async def check() -> bool:
            return len(await self.texts(prompt)) >= count

        return await self.until(check)

    async def until_state(self, prompt: Prompt, *states: TurnState) -> float:
        """Waits for a state of a turn."""

        async def check() -> bool:
            return await self.house.records.state(prompt.turn_id) in states

        return await self.until(check)

    async def until_attempt(self, prompt: Prompt, number: int) -> float:
        """Waits until an attempt has begun, or the turn has ended without it."""

        async def check() -> bool:
            record = await self.house.records.turn(prompt.turn_id)
            return record is not None and (
                record.attempt >= number or not TRANSITIONS[record.state]
            )

        return await self.until(check)

    async def recovered(self, prompt: Prompt, attempt: int = 2) -> None:
        """Measures from now until the next attempt has begun."""
        self.recoveries_s.append(await self.until_attempt(prompt, attempt))

    async def quiet(self, limit_s: float = LIMIT_S) -> None:
        """Waits until every turn has its end and nothing is on its way any more."""
        waiting = {prompt.turn_id for prompt in self.prompts}

        async def check() -> bool:
            for turn_id in list(waiting):
                state = await self.house.records.state(turn_id)
                if state is not None and not TRANSITIONS[state]:
                    waiting.discard(turn_id)
            redis, keys = self.house.redis, self.house.keys
            names = [keys.out(number) for number in range(keys.partitions)] + [keys.errors]
            return not waiting and not [name for name in names if await redis.xlen(name)]

        await self.until(check, limit_s)

    async def sample_caps(self, cap: int) -> None:
        """Looks again and again how much runs at once, until it is cancelled."""
        keys = self.house.keys
        while True:
            try:
                running = await self.house.redis.hgetall(keys.running_guilds)  # type: ignore[misc]  # redis-py types both clients
            except AWAY:
                running = {}
            for guild, count in running.items():
                name = f"guild {guild.decode()}"
                self.peaks[name] = max(self.peaks.get(name, 0), int(count))
            self.cap = cap
            await asyncio.sleep(0.02)

    def _look(self) -> None:
        for process in self.house.processes:
            process.look()

    def logged(self, process: Process) -> bytes:
        """What a process has logged since the scenario began."""
        with process.log.open("rb") as log:
            log.seek(self.log_sizes.get(process.log, 0))
            return log.read()

    def last_words(self) -> list[str]:
        """What the processes said last, of those that ended by themselves."""
        return [
            line[:2_000]
            for process in self.house.processes
            if process.unexpected[self.exits_before.get(process.name, 0) :]
            for line in self.logged(process).decode().splitlines()
            if '"CRITICAL"' in line or '"ERROR"' in line or not line.startswith("{")
        ]
