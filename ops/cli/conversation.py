"""A prompt and its reply in a local channel, followed until the channel shows all of it.

Comes in: a prompt that was posted. Goes out: what the channel shows at the end. `turns send` and
the demonstration use it.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from ops.cli.session import Fleet
from shared.edges.local_channel import LocalMessage, local_turn_id
from shared.edges.records import TurnRecord
from shared.edges.redis import within
from shared.segments import TurnDone
from shared.turns import TRANSITIONS, TurnState

POLL_S: Final = 0.05
"""How often Redis is asked where the turn stands: three short commands, seen as at once."""
CHANNEL_BITS: Final = 53
"""Of a new channel's id: nobody else's by chance, and whole in any JSON reader."""
READ_COUNT: Final = 1_000


class Waiting(StrEnum):
    """What is waited for."""

    UNADMITTED = "unadmitted"
    """Nobody took the prompt yet."""
    UNFINISHED = "unfinished"
    """The turn waits or runs."""
    UNDELIVERED = "undelivered"
    """The turn has ended, the channel does not show all of it yet."""
    OVER = "over"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, and what became of it."""

    turn_id: str
    channel_id: int
    prompt_id: int
    waiting: Waiting = Waiting.UNADMITTED
    record: TurnRecord | None = None
    messages: tuple[LocalMessage, ...] = ()
    elapsed_ms: int = 0

    @classmethod
    def begun(cls, channel_id: int, prompt_id: int) -> "Exchange":
        """The exchange of a prompt that was just posted."""
        return cls(turn_id=local_turn_id(prompt_id), channel_id=channel_id, prompt_id=prompt_id)

    @property
    def state(self) -> TurnState | None:
        """The turn's state; None when it was never admitted."""
        return self.record.state if self.record else None

    @property
    def is_good(self) -> bool:
        """Whether the channel shows a whole reply."""
        return self.waiting is Waiting.OVER and self.state is TurnState.DONE

    def as_record(self) -> dict[str, object]:
        """The exchange for JSON."""
        event = self.record.event if self.record else None
        cause = None if event is None or isinstance(event, TurnDone) else event.cause
        return {
            "turn_id": self.turn_id,
            "channel_id": self.channel_id,
            "prompt_id": self.prompt_id,
            "waiting": self.waiting.value,
            "state": self.state.value if self.state else None,
            "cause": cause,
            "attempt": self.record.attempt if self.record else None,
            "elapsed_ms": self.elapsed_ms,
            "messages": [msgspec.to_builtins(message) for message in self.messages],
        }


def fresh_channel() -> int:
    """The id of a channel that nobody has used."""
    return secrets.randbits(CHANNEL_BITS - 1) | 1 << (CHANNEL_BITS - 1)


async def converse(
    link: Fleet,
    exchange: Exchange,
    *,
    timeout_s: float,
    update: Callable[[str], None] = lambda _line: None,
) -> Exchange:
    """Follows an exchange until the channel shows all of the reply, or time is up.

    Args:
        link: the fleet.
        exchange: as `Exchange.begun` gives it.
        timeout_s: how long to wait; the exchange is then returned as it stands.
        update: told in a few words how far it is.

    Raises:
        StoreUnavailable: Redis went away; the turn goes on without us.
    """
    started_s = time.monotonic()
    while exchange.waiting is not Waiting.OVER:
        elapsed_s = time.monotonic() - started_s
        if elapsed_s > timeout_s:
            break
        exchange = await _looked_at(link, exchange, int(elapsed_s * 1000))
        update(f"{exchange.state or 'waits for a gateway'}, {len(exchange.messages)} messages")
        if exchange.waiting is not Waiting.OVER:
            await asyncio.sleep(POLL_S)
    return exchange


async def _looked_at(link: Fleet, exchange: Exchange, elapsed_ms: int) -> Exchange:
    # In this order: what the stream no longer holds, the messages have.
    record = await link.records.turn(exchange.turn_id)
    is_ended = record is not None and not TRANSITIONS[record.state]
    is_delivered = is_ended and not await _is_in_stream(link, exchange)
    messages = tuple(
        message
        for message in await link.channel.messages(exchange.channel_id)
        if message.is_bot and message.id > exchange.prompt_id
    )
    if is_delivered or (record is None and any(message.is_notice for message in messages)):
        waiting = Waiting.OVER
    elif is_ended:
        waiting = Waiting.UNDELIVERED
    else:
        waiting = Waiting.UNADMITTED if record is None else Waiting.UNFINISHED
    return msgspec.structs.replace(
        exchange, record=record, waiting=waiting, messages=messages, elapsed_ms=elapsed_ms
    )


async def _is_in_stream(link: Fleet, exchange: Exchange) -> bool:
    """Whether anything of the turn is still on its way: the gateway removes what it has shown."""
    stream = link.keys.out_of(exchange.channel_id)
    after = "-"
    while True:
        answer: Any = await within(link.redis.xrange(stream, min=after, count=READ_COUNT))
        if any(fields.get(b"turn") == exchange.turn_id.encode() for _, fields in answer):
            return True
        if len(answer) < READ_COUNT:
            return False
        after = f"({answer[-1][0].decode()}"
