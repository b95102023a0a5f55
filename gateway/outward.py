"""The way out of a gateway: fronts, their request budget, and who delivers a partition.

Comes in: settings, clients of Redis. Goes out: an `Outward`, running. `gateway.app` composes it.
"""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Final

import msgspec
from redis.asyncio import Redis

from gateway.delivery.channels import BlockedChannels
from gateway.delivery.courier import Courier, Echoes
from gateway.delivery.partition import PartitionDelivery
from gateway.delivery.surroundings import Surroundings
from gateway.edges.budget import RequestBudget, bot_name
from gateway.edges.channel_memory import ChannelMemory
from gateway.edges.clock import SystemClock
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.discord_voices import Voices
from gateway.edges.leadership import PartitionLease
from gateway.edges.local import LocalFront
from gateway.edges.metering import MeteredSource
from gateway.edges.operators import OperatorsChannel
from gateway.edges.refusals import GuardedBudget, Refusals
from gateway.edges.shard_leases import RedisShards
from gateway.edges.store import GatewayFleet, RedisJournal, RedisMarks
from gateway.edges.table_image import NoPainter, PoolPainter, find_fonts
from gateway.front import Boundless, Budget, ChannelFront, Voice
from gateway.notices import Notices
from gateway.typist import Typist
from shared.config import Settings, Tables
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.reporter import Reporter, new_report_id
from shared.edges.streams import GroupReader, TailReader
from shared.errors import ConfigError
from shared.i18n import Texts
from shared.keys import OPERATORS_GROUP, Keys
from shared.metrics import Metrics
from shared.turns import Front, Route

JITTER: Final = (0.8, 1.2)
"""Channels that wait for the same outage come back within a fifth of each other's time."""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What the way out shares with the rest of the gateway."""

    settings: Settings
    keys: Keys
    redis: Redis
    blocking: Redis
    queue: TurnQueue
    reporter: Reporter
    texts: Texts
    notices: Notices
    memory: ChannelMemory
    metrics: Metrics
    process_id: str
    typist: Typist


class Outward:
    """Fronts and delivery of one gateway.

    Args:
        shared: what the rest of the gateway made.

    Raises:
        ConfigError: a setting is wrong or missing.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.echoes = Echoes()
        self.channels = BlockedChannels()
        self.clock = SystemClock()
        self.fleet = GatewayFleet(shared.queue)
        self._painter = PoolPainter(find_fonts()) if self._draws else NoPainter()
        self.refusals = Refusals(shared.redis, shared.keys)
        self._bucket = self._budget()
        self._discord_budget = GuardedBudget(self._bucket, self.refusals)
        self.fronts = self._fronts()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps clock, budget and painter while the block runs."""
        async with contextlib.AsyncExitStack() as stack:
            if isinstance(self._painter, PoolPainter):
                await stack.enter_async_context(self._painter.running())
            if isinstance(self._bucket, RequestBudget):
                await stack.enter_async_context(self._bucket.running())
            group = await stack.enter_async_context(asyncio.TaskGroup())
            beside = [
                group.create_task(self.clock.follow(self._shared.redis), name="clock"),
            ]
            if isinstance(self._bucket, RequestBudget):
                beside.append(group.create_task(self.refusals.run(), name="refusals"))
            if (operators := self._operators()) is not None:
                beside.append(group.create_task(operators.run(), name="operators"))
            try:
                yield
            finally:
                for task in beside:
                    task.cancel()

    def budget_of(self, front: Front) -> Budget:
        """How many requests a front takes."""
        return self._discord_budget if front is Front.DISCORD else Boundless()

    def surroundings(self) -> Surroundings:
        """What all partitions share."""
        shared = self._shared
        # Replies for a Discord that is switched off wait, like those for one that is away.
        absent = DiscordFront(DiscordOptions(token=""), RedisMarks(shared.redis, shared.keys))
        couriers = {
            name: Courier(
                front,
                clock=self.clock,
                echoes=self.echoes,
                jitter=lambda: random.uniform(*JITTER),
                budget=self.budget_of(name),
                voice_of=shared.memory.voices(self._voices_of(front), front),
            )
            for name, front in ({Front.DISCORD: absent} | self.fronts).items()
        }
        return Surroundings(
            couriers=couriers,
            reporter=shared.reporter,
            fleet=self.fleet,
            typing=shared.typist,
            notices=shared.notices,
            clock=self.clock,
            new_report_id=new_report_id,
            painter=self._painter,
            channels=self.channels,
            max_messages=shared.settings.messages_per_turn,
            shows_stop=shared.settings.stop_button,
        )

    def partition(self, number: int, around: Surroundings) -> PartitionDelivery:
        """Who delivers a partition."""
        shared = self._shared
        reader = TailReader(shared.redis, shared.blocking, stream=shared.keys.out(number))
        owner = shared.process_id
        return PartitionDelivery(
            number,
            source=MeteredSource(reader, shared.keys, shared.metrics),
            journal=RedisJournal(shared.redis, shared.keys, number, owner),
            lease=PartitionLease(shared.redis, shared.keys, number, owner),
            around=around,
        )

    @property
    def _draws(self) -> bool:
        """Only Discord shows pictures."""
        settings = self._shared.settings
        return settings.tables == Tables.IMAGE and settings.front == Front.DISCORD

    def _voices_of(self, front: ChannelFront) -> Callable[[Route], Voice] | None:
        return Voices(front, time.monotonic).of if isinstance(front, DiscordFront) else None

    def _operators(self) -> OperatorsChannel | None:
        shared, channel_id = self._shared, self._shared.settings.operators_channel
        front = self.fronts.get(Front.DISCORD)
        if channel_id is None or front is None:
            return None
        reader = GroupReader(
            shared.redis,
            shared.blocking,
            stream=shared.keys.alerts,
            group=OPERATORS_GROUP,
            consumer=f"gateway-{socket.gethostname()}",
        )
        return OperatorsChannel(reader, front, channel_id, shared.texts)

    def _budget(self) -> Budget:
        shared = self._shared
        token, limit = shared.settings.discord_token, shared.settings.discord_requests_per_s
        if shared.settings.front != Front.DISCORD or not token:
            return Boundless()
        return RequestBudget(shared.redis, shared.keys, bot_name(token), limit=limit)

    def _note(self, status: int, scope: str, retry_after_s: float) -> None:
        """An answer of Discord: what it refused is counted, and made again without a permit."""
        self.refusals.note(status, scope)
        if status == HTTPStatus.TOO_MANY_REQUESTS and isinstance(self._bucket, RequestBudget):
            self._bucket.refused(scope, retry_after_s)

    def _fronts(self) -> dict[Front, ChannelFront]:
        shared, settings = self._shared, self._shared.settings
        local = LocalFront(
            LocalChannel(shared.redis, shared.keys), LocalChannel(shared.blocking, shared.keys)
        )
        fronts: dict[Front, ChannelFront] = {Front.LOCAL: local}
        if settings.front == Front.DISCORD:
            if not settings.discord_token:
                raise ConfigError(
                    "TURNFLEET_FRONT=discord needs TURNFLEET_DISCORD_TOKEN; "
                    "docs/discord.md says where to get one"
                )
            fronts[Front.DISCORD] = DiscordFront(
                _options(settings, settings.discord_token),
                RedisMarks(shared.redis, shared.keys),
                RedisShards(
                    shared.redis,
                    shared.keys,
                    shared.process_id,
                    wanted=settings.discord_shards,
                ),
                budget=self._discord_budget,
                on_answer=self._note,
            )
        return fronts


def _options(settings: Settings, token: str) -> DiscordOptions:
    names = tuple(name.strip() for name in settings.discord_names.split(",") if name.strip())
    return DiscordOptions(
        token=token,
        rest_url=settings.discord_rest_url,
        names=names,
        reads_all=settings.discord_reads_all,
    )
