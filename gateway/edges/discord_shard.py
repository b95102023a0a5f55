"""One shard of a bot: hikari's, which other processes can go on with.

Comes in: a session that somebody left, the word to begin one. Goes out: a session to leave.
`gateway.edges.discord_connection` makes them.

hikari ends a session when it closes, and knows no other process. What is needed for more lies in
its private attributes; `tests/integration/gateway/test_shards.py` holds it to them.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Final, cast

import hikari
import msgspec
from hikari.impl import GatewayShardImpl

LEAVE_CODE: Final = 4000
"""Any close but 1000 and 1001 keeps the session (developer docs, gateway, disconnections)."""
SETTLE_S: Final = 5.0
"""What a shard that connects gets to stand, before it is closed: hikari leaks it otherwise."""

SEQ: ContextVar[int] = ContextVar("seq", default=0)
"""The number of the event that the running handler is for: hikari's own may be ahead."""


class State(StrEnum):
    """How a shard stands, for operators."""

    CONNECTED = "connected"
    STARTING = "starting"
    RESUMING = "resuming"
    WAITING = "waiting"
    NO_STARTS = "no_starts"


class Resumable(msgspec.Struct, frozen=True, kw_only=True):
    """What Discord needs to go on with a session."""

    session_id: str
    seq: int
    url: str


class Token:
    """One event that is not taken yet."""

    def __init__(self, ledger: "Ledger", place: tuple[int, int]) -> None:
        self._ledger = ledger
        self._place = place
        self._is_open = True

    def again(self) -> "Token":
        """One more for the same event: it has become several."""
        return self._ledger.opened(self._place)

    def covers(self, later: "Token") -> bool:
        """Whether nothing can pass the other's event while this one is open."""
        return self._ledger is later._ledger and self._is_open and self._place <= later._place

    def close(self) -> None:
        """The event is taken. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._ledger.closed(self._place)


def close_all(tokens: Iterable[Token]) -> None:
    """The event of these tokens is taken, or nobody waits for it any more."""
    for token in tokens:
        token.close()


class Ledger:
    """How far the events of a shard are taken."""

    def __init__(self) -> None:
        self._session = 0
        self._open: Counter[tuple[int, int]] = Counter()

    @property
    def is_clear(self) -> bool:
        """Everything that came is taken."""
        return not self._open

    def begin(self) -> None:
        """A new session began: its numbers start again."""
        self._session += 1

    def open(self) -> Token:
        """Notes the event of the running handler."""
        return self.opened((self._session, SEQ.get()))

    def opened(self, place: tuple[int, int]) -> Token:
        """Notes an event."""
        self._open[place] += 1
        return Token(self, place)

    def closed(self, place: tuple[int, int]) -> None:
        """Forgets one."""
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]

    def until(self, seq: int) -> int:
        """Up to which number of the session everything is taken; 0 if it cannot tell."""
        session, first = min(self._open, default=(self._session, seq + 1))
        return min(seq, first - 1) if session == self._session else 0


class Shard(GatewayShardImpl):
    """A shard.

    Args:
        permit: waits until a session may be begun.
        left: the session of another process, to go on with.
        user_id: the bot, which only a new session tells.
        facts: hikari's own.
    """

    __slots__ = ("_permit", "_settled", "state")

    def __init__(
        self,
        *,
        permit: Callable[["Shard"], Awaitable[None]],
        left: Resumable | None,
        user_id: int,
        **facts: Any,
    ) -> None:
        manager = cast("hikari.api.EventManager", _Numbering(facts.pop("event_manager")))
        super().__init__(event_manager=manager, **facts)
        self._permit = permit
        self._settled = asyncio.Event()
        self._settled.set()
        self._user_id = hikari.Snowflake(user_id)
        self.state = State.STARTING
        if left is not None:
            self._session_id = left.session_id
            self._seq = left.seq
            self._resume_gateway_url = left.url

    @property
    def has_stood(self) -> bool:
        """The last connection was one, before it ended."""
        return self._handshake_event is not None and self._handshake_event.is_set()

    def begin(self) -> None:
        """Connects, in a task of its own, again and again until it is closed; see `join`."""
        self._handshake_event = asyncio.Event()
        self._keep_alive_task = asyncio.create_task(
            self._keep_alive(), name=f"keep alive (shard {self.id})"
        )

    @property
    def resumable(self) -> Resumable | None:
        """The session as it is now; None where there is none."""
        if self._session_id is None or not self._seq:
            return None
        url = self._resume_gateway_url or self._gateway_url
        return Resumable(session_id=self._session_id, seq=self._seq, url=url)

    async def leave(self) -> Resumable | None:
        """Closes so that the session lives on; None where there is none. Safe to call twice."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self._settled.wait()
        if self._ws is not None:
            self._ws = cast("Any", _Parting(self._ws))
        if self._keep_alive_task is not None and self._keep_alive_task.done():
            self._keep_alive_task = None  # `join` has told how it ended
        elif self.is_alive:
            await self.close()
        await asyncio.sleep(0)  # handlers of the last events begin, and note them
        return self.resumable

    async def _connect(self) -> tuple[asyncio.Task[None], ...]:
        if self._seq is None:
            await self._permit(self)
            self.state = State.STARTING
        else:
            self.state = State.RESUMING
        self._settled.clear()
        try:
            return await super()._connect()
        except hikari.GatewayConnectionError:
            # The node that a session is resumed at may be gone for good; hikari would ask it for
            # ever. The common address knows the session too, or says that there is none.
            self._resume_gateway_url = None
            raise
        finally:
            self._settled.set()


class _Numbering:
    """An event manager that tells each handler the number of its event."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.dispatch = manager.dispatch

    def consume_raw_event(self, event_name: str, shard: Shard, payload: Any) -> None:
        """Dispatches an event to handlers, which run in copies of this context."""
        SEQ.set(shard._seq or 0)
        self._manager.consume_raw_event(event_name, shard, payload)


class _Parting:
    """A socket whose goodbye leaves the session alive."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def send_json(self, data: Any) -> None:
        """Answers a last wish for a heartbeat."""
        await self._socket.send_json(data)

    async def send_close(self, *, code: int, message: bytes) -> None:
        """Closes with our code in place of hikari's."""
        del code
        await self._socket.send_close(code=LEAVE_CODE, message=message)
