"""Admissions and edges of the gateway, with a count of what passes, and how late events arrive.

Comes in: what the queue and `gateway.edges.store` get. Goes out: the same, and numbers. The
composition root builds it.
"""

import time
from collections import Counter

from gateway.edges.discord import DiscordFront
from gateway.edges.store import StreamSource
from gateway.front import ChannelFront
from gateway.ports import Admit
from shared.edges.streams import TailReader
from shared.keys import Keys
from shared.metrics import (
    ADMISSIONS,
    DELIVERY_LAG,
    DISCORD_REFUSED,
    DISCORD_SHARDS,
    DISCORD_STARTS,
    Metrics,
)
from shared.turns import Admission, TurnRequest


def measure_discord(front: ChannelFront | None, metrics: Metrics, refused: int) -> None:
    """Sets what a gateway's shards, session starts and refused requests are."""
    metrics.set(DISCORD_REFUSED, refused)
    if not isinstance(front, DiscordFront):
        return
    metrics.forget(DISCORD_SHARDS)
    for state, many in Counter(front.states.values()).items():
        metrics.set(DISCORD_SHARDS, many, state=state)
    left, total = front.starts
    if total:
        metrics.set(DISCORD_STARTS, left, total=str(total))


class MeteredAdmissions:
    """Counts what became of prompts."""

    def __init__(self, admit: Admit, metrics: Metrics) -> None:
        self._admit = admit
        self._metrics = metrics

    async def admit(self, request: TurnRequest) -> Admission:
        """Takes a turn, or says why not."""
        answer = await self._admit(request)
        self._metrics.add(ADMISSIONS, answer=answer.value)
        return answer


class MeteredSource(StreamSource):
    """Measures how long an event was on its way to Discord: its id is when it began."""

    def __init__(self, reader: TailReader, keys: Keys, metrics: Metrics) -> None:
        super().__init__(reader, keys)
        self._metrics = metrics

    async def ack(self, entry_id: str) -> None:
        """Acknowledges an envelope and removes it from the stream."""
        await super().ack(entry_id)
        self.acked(entry_id)

    def acked(self, entry_id: str) -> None:
        """An envelope was acknowledged, on its own or with its receipt."""
        began_ms = int(entry_id.partition("-")[0])
        self._metrics.observe(DELIVERY_LAG, max(0.0, time.time() - began_ms / 1000))
