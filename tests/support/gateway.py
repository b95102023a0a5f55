"""A gateway as a real process, and a script in place of a worker."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from shared.edges.queue import Appended, Claimed, Finished, TurnQueue
from shared.segments import Segment, SegmentKind, SegmentReady, TurnDone, TurnFailed
from shared.turns import AttemptToken

ROOT = Path(__file__).parents[2]
STOP_TIMEOUT_S = 15.0


class GatewayProcess:
    """`python -m gateway`. Its log lines go to a file."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.log = directory / "gateway.log"
        self._settings = {"DATA_DIR": str(directory), **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
        environ |= {f"TURNFLEET_{name}": text for name, text in self._settings.items()}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway"], env=environ, cwd=ROOT, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def leads(self, queue: TurnQueue) -> None:
        """Waits until this process delivers every partition."""
        numbers = range(queue.keys.partitions)
        while True:
            owners = [await queue.redis.get(queue.keys.leader(number)) for number in numbers]
            if all(owner and f"-{self.pid}-" in owner.decode() for owner in owners):
                return
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_TIMEOUT_S)
        self._process = None
        return code

    def wait(self, seconds: float) -> int:
        """Waits for an end of its own accord; the exit code."""
        assert self._process is not None
        code = self._process.wait(seconds)
        self._process = None
        return code


def segment_of(token: AttemptToken, seq: int, text: str) -> SegmentReady:
    return SegmentReady(
        segment=Segment(
            turn_id=token.turn_id,
            attempt=token.attempt,
            seq=seq,
            kind=SegmentKind.TEXT,
            text=text,
            start=0,
            end=len(text),
        )
    )


class ScriptedWorker:
    """Answers turns as a worker does, without a model: random segments, attempts and failures.

    `replies` has, per turn, the texts that the channel must show in the end.
    """

    def __init__(self, queue: TurnQueue, rng: random.Random) -> None:
        self._queue = queue
        self._rng = rng
        self.replies: dict[str, list[str]] = {}

    async def run(self, turns: int) -> None:
        """Answers until so many turns are answered."""
        async with asyncio.TaskGroup() as group:
            started = 0
            while started < turns:
                for claimed in await self._queue.claim("script", 10):
                    group.create_task(self._answer(claimed))
                    started += 1
                await asyncio.sleep(0.02)

    async def _answer(self, claimed: Claimed) -> None:
        token = claimed.token
        texts = await self._attempt(token)
        while self._rng.random() < 0.3:
            following = await self._queue.next_attempt(token)
            assert following is not None
            token = following
            texts = await self._attempt(token)
        event: TurnDone | TurnFailed = TurnDone(count=len(texts))
        if self._rng.random() < 0.2:
            headline = f"{token.turn_id} failed."
            event = TurnFailed(
                cause="overloaded",
                category="provider_overloaded",
                count=len(texts),
                headline=headline,
                fault="user",
            )
            texts.append(
                f"{headline} The answer above was cut off.\n-# Whoever set this up can change it."
            )
        # What the channel must show is known before the gateway can show it.
        self.replies[token.turn_id] = texts
        assert await self._queue.finish(token, event) is Finished.OK

    async def _attempt(self, token: AttemptToken) -> list[str]:
        texts = [
            f"{token.turn_id} attempt {token.attempt} part {seq}"
            for seq in range(1, self._rng.randint(2, 6))
        ]
        for seq, text in enumerate(texts, start=1):
            await asyncio.sleep(self._rng.uniform(0, 0.3))
            answer = await self._queue.append(token, seq, segment_of(token, seq, text))
            assert answer in (Appended.OK, Appended.DUPLICATE)
        return texts
