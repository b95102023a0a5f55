"""What several rooms of the gateway ask of each other and of the queue, each stated once.

Comes in: nothing. Goes out: calls and protocols. Anyone in the gateway may import it; what only
one room asks stands in that room.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.front import Change
from shared.turns import Admission, TurnRequest

Admit = Callable[[TurnRequest], Awaitable[Admission]]
"""Takes a turn, or says why not. It may be repeated, since a turn is taken once.

It raises `RequestTooLarge`, and `StoreUnavailable` when nobody answers.
"""
Heed = Callable[[Change, int], Awaitable[None]]
"""Takes what changed at a front, and the bot's own id there."""


class Prompts(Protocol):
    """What people change of turns that were taken.

    Every call may raise `StoreUnavailable` and be repeated.
    """

    async def amend(self, turn_id: str, text: str) -> bool:
        """Replaces the prompt of a turn that still waits; False when there is none."""
        ...

    async def withdraw(self, turn_id: str) -> None:
        """Stops a turn that nobody waits for any more, and says nothing about it."""
        ...


class Marks(Protocol):
    """Where it is noted that a prompt becomes no turn."""

    async def decline(self, turn_id: str) -> None:
        """Notes that a prompt was answered with a notice: it becomes no turn any more."""
        ...


class Signs(Protocol):
    """The owner of the signs of waiting turns."""

    def stop(self, turn_id: str) -> None:
        """Ends the signs of a turn: its answer begins to show, or there will be none."""
        ...
