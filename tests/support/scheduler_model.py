"""A model of the scheduler in plain Python: what must be true of the queue after every move.

It knows the rules (one turn of a lane at a time, prompts before replays of a lane, caps of guilds
and keys, pauses, delays), not how the scripts keep them.
"""

from collections import defaultdict
from enum import Enum

import msgspec


class Standing(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    LATER = "later"
    """It asked to wait."""
    LOCKED = "locked"
    """It waits after a crash, and its lane with it."""
    ENDED = "ended"


class ModelTurn(msgspec.Struct, kw_only=True):
    turn_id: str
    guild: str
    lane: str
    provider: str
    is_low: bool
    standing: Standing = Standing.WAITING
    crashes: int = 0

    @property
    def queue(self) -> tuple[str, bool]:
        return self.lane, self.is_low

    @property
    def is_alive(self) -> bool:
        return self.standing is not Standing.ENDED


class Model:
    """Turns in the order of their queues, and what is paused."""

    def __init__(self, *, guild_cap: int, key_cap: int) -> None:
        self.guild_cap = guild_cap
        self.key_cap = key_cap
        self.turns: dict[str, ModelTurn] = {}
        self.queues: dict[tuple[str, bool], list[str]] = defaultdict(list)
        self.paused: set[str] = set()

    def admit(self, turn: ModelTurn) -> None:
        self.turns[turn.turn_id] = turn
        if turn.standing is Standing.WAITING:
            self.queues[turn.queue].append(turn.turn_id)

    def of(self, *standings: Standing) -> list[ModelTurn]:
        return [turn for turn in self.turns.values() if turn.standing in standings]

    def running_of(self, *, guild: str | None = None, provider: str | None = None) -> int:
        return sum(
            guild in {None, turn.guild} and provider in {None, turn.provider}
            for turn in self.of(Standing.RUNNING)
        )

    def is_locked(self, lane: str) -> bool:
        return any(turn.lane == lane for turn in self.of(Standing.RUNNING, Standing.LOCKED))

    def is_paused(self, turn: ModelTurn) -> bool:
        names = {"fleet", f"guild:{turn.guild}", f"provider:{turn.provider}"}
        return bool(names & self.paused)

    def can_start(self, turn: ModelTurn) -> bool:
        """Whether the rules let a turn start now."""
        head = self.queues[turn.queue][:1]
        return (
            turn.standing is Standing.WAITING
            and head == [turn.turn_id]
            and not self.is_locked(turn.lane)
            and not self.is_paused(turn)
            and self.running_of(guild=turn.guild) < self.guild_cap
            and self.running_of(provider=turn.provider) < self.key_cap
        )

    def startable(self) -> list[str]:
        return [turn.turn_id for turn in self.turns.values() if self.can_start(turn)]

    def start(self, turn_id: str) -> None:
        turn = self.turns[turn_id]
        assert self.can_start(turn), f"{turn_id} may not start"
        self.queues[turn.queue].remove(turn_id)
        turn.standing = Standing.RUNNING

    def back(self, turn_id: str) -> None:
        """To the head of its queue."""
        turn = self.turns[turn_id]
        self.queues[turn.queue].insert(0, turn_id)
        turn.standing = Standing.WAITING

    def hold(self, turn_id: str) -> None:
        self.turns[turn_id].standing = Standing.LOCKED

    def end(self, turn_id: str) -> None:
        turn = self.turns[turn_id]
        if turn_id in self.queues[turn.queue]:
            self.queues[turn.queue].remove(turn_id)
        turn.standing = Standing.ENDED

    def due(self, turn_id: str) -> None:
        """Its delay is over."""
        turn = self.turns[turn_id]
        if turn.standing is Standing.LOCKED:
            self.back(turn_id)
        else:
            self.queues[turn.queue].append(turn_id)
            turn.standing = Standing.WAITING

    def depths(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for turn in self.turns.values():
            if turn.is_alive:
                counts[turn.guild] += 1
        return dict(counts)
