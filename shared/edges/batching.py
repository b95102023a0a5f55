"""A client whose commands travel together.

Comes in: commands, from any number of tasks. Goes out: their answers. `shared.edges.redis` makes
it, for processes that ask much at once: most of what a command costs is the way, not the server.

A connection for each command costs more than the command: a pool to wait for, two timers, a write
and a read, and in a burst a connection that must be opened first. Here one carrier sends what waits
over one connection, reads as many answers, and looks again; the busier the process, the more go in
one write. It ends when nothing waits, so that an idle client has no task. Tried beside it: three
commands alone and the others in pipelines, which took twice the CPU at three and at ten at once.

Errors are each command's own. What would make others wait goes its own way, over the pool: reads
that block, and commands with more than `LARGE_BYTES`. So do pipelines, which are one write already.
"""

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import redis.exceptions as errors
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.client import EMPTY_RESPONSE, NEVER_DECODE

from shared.logs import fields

RETRIES: Final = 1
"""How often a command is sent again whose connection broke: the first one may have been closed by
the server long ago. Every command of ours may come twice."""
RETRY_S: Final = 0.05
MAX_BATCH: Final = 128
"""Commands of one write: beyond this the first answer waits for more than it saves."""
LARGE_BYTES: Final = 64 * 1024
SILENT_S: Final = 1.0
"""After that an exchange is stuck, if somebody gives up waiting: the next one gets a connection of
its own. A lease lives six times as long; the socket's own limit would be too late for it."""
OWN_WAY: Final = frozenset({"BLPOP", "BRPOP", "BLMOVE", "BZPOPMIN", "WAIT", "XREAD", "XREADGROUP"})
"""They may wait in the server."""

log = logging.getLogger(__name__)


class _Call:
    """A command that waits for its answer."""

    __slots__ = ("answer", "command", "is_raw", "tries")

    def __init__(
        self, command: tuple[Any, ...], answer: "asyncio.Future[Any]", *, is_raw: bool
    ) -> None:
        self.command = command
        self.answer = answer
        self.is_raw = is_raw
        self.tries = 0

    def fail(self, exc: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


class Line:
    """Carries commands over one connection of a pool.

    Args:
        pool: where the connection comes from, and whose limits hold.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: AbstractConnection | None = None
        self._waiting: list[_Call] = []
        self._carrier: asyncio.Task[None] | None = None
        self._since_s: float | None = None  # when the current exchange began, or had an answer
        self._is_stuck = False  # the carrier is cancelled for that alone

    async def ask(self, command: tuple[Any, ...], *, is_raw: bool = False) -> Any:
        """Sends a command and gives its answer, undecoded where `is_raw`.

        Cancelled, the command may have been carried out; the line goes on.

        Raises:
            redis.exceptions.RedisError, OSError: as redis-py raises them.
        """
        loop = asyncio.get_running_loop()
        call = _Call(command, loop.create_future(), is_raw=is_raw)
        self._waiting.append(call)
        if self._carrier is None:
            # Whoever asks first lends it nothing: what it logs is of no turn.
            self._carrier = loop.create_task(
                self._carry(), name="redis line", context=contextvars.Context()
            )
        try:
            return await call.answer
        except asyncio.CancelledError:
            since_s = self._since_s
            if since_s is not None and loop.time() - since_s > SILENT_S and not self._is_stuck:
                self._is_stuck = True
                self._carrier.cancel()
            raise

    async def close(self) -> None:
        """Closes the connection; who still waits hears of a broken one."""
        if self._carrier is not None:
            self._is_stuck = False  # this cancellation means the carrier
            self._carrier.cancel()
            await asyncio.wait({self._carrier})
            self._give_up([])  # it may not have begun
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect()
            await self._pool.release(connection)

    async def _carry(self) -> None:
        batch: list[_Call] = []
        try:
            while self._waiting:
                batch = [call for call in self._waiting[:MAX_BATCH] if not call.answer.done()]
                del self._waiting[:MAX_BATCH]
                try:
                    if not await self._exchange(batch):
                        await asyncio.sleep(RETRY_S)
                except asyncio.CancelledError:
                    if not self._is_stuck:
                        raise
                    self._is_stuck = False
                    _stay()
                    lost = [call for call in batch if call not in self._waiting]
                    self._again(lost, errors.TimeoutError("nobody answers"))
        finally:
            self._give_up(batch)  # nothing is left, unless the line is closed

    def _give_up(self, batch: list[_Call]) -> None:
        self._carrier, self._is_stuck = None, False
        for call in (*batch, *self._waiting):
            call.fail(errors.ConnectionError("the line was closed"))
        self._waiting.clear()

    async def _exchange(self, batch: list[_Call]) -> bool:
        """Sends commands and reads their answers.

        Returns:
            Whether the connection held; where it did not, what may be sent again waits in front.
        """
        try:
            connection = await self._connected()
        except Exception as exc:  # noqa: BLE001  # a refused password is theirs to hear of, too
            for call in batch:
                call.fail(exc)
            return True
        sent: deque[_Call] = deque()
        self._since_s = asyncio.get_running_loop().time()
        try:
            await self._send(connection, batch, sent)
            while sent:
                await self._read(connection, sent[0])
                sent.popleft()
                self._since_s = asyncio.get_running_loop().time()
        except asyncio.CancelledError:
            await connection.disconnect(nowait=True)
            raise
        except Exception as exc:  # noqa: BLE001  # whoever waits hears of it, whatever it is
            # Answers and questions may not match any more.
            await connection.disconnect(nowait=True)
            return self._again(sent, exc)
        finally:
            self._since_s = None
        return True

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is None:
            connection = self._connection = await self._pool.get_connection()
        elif not connection.is_connected:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py
        return connection

    async def _send(
        self, connection: AbstractConnection, batch: list[_Call], sent: "deque[_Call]"
    ) -> None:
        parts: list[bytes] = []
        for call in batch:
            try:
                parts += connection.pack_command(*call.command)
            except Exception as exc:  # noqa: BLE001  # half a surrogate, say: nobody else's trouble
                call.fail(exc)
            else:
                sent.append(call)
        if parts:
            await connection.send_packed_command(parts)

    async def _read(self, connection: AbstractConnection, call: _Call) -> None:
        try:
            answer = await connection.read_response(disable_decoding=call.is_raw)
        except errors.ResponseError as exc:
            call.fail(exc)
        else:
            if not call.answer.done():
                call.answer.set_result(answer)

    def _again(self, calls: Iterable[_Call], exc: BaseException) -> bool:
        """Lets those wait again that were not sent too often; the others hear what happened."""
        again = []
        for call in calls:
            if call.answer.done():
                continue
            call.tries += 1
            if call.tries > RETRIES:
                call.fail(exc)
            else:
                again.append(call)
        self._waiting[:0] = again
        log.debug("line.broken", extra=fields(reason=type(exc).__name__, again=len(again)))
        return not again


class BatchingRedis(Redis):
    """redis-py's client over a `Line`. Not for reads that block: everybody would wait with them."""

    _line: Line | None = None

    @property
    def line(self) -> Line:
        """Its line; made when it is first asked for."""
        if self._line is None:
            self._line = Line(self.connection_pool)
        return self._line

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command and gives its answer, as redis-py's own does."""
        if args[0] in OWN_WAY or _is_large(args):
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        is_raw = options.pop(NEVER_DECODE, False)
        try:
            answer = await self.line.ask(args, is_raw=bool(is_raw))
        except errors.ResponseError:
            if EMPTY_RESPONSE in options:
                return options[EMPTY_RESPONSE]
            raise
        options.pop(EMPTY_RESPONSE, None)
        options.pop("keys", None)
        convert = self.response_callbacks.get(args[0])
        return answer if convert is None else convert(answer, **options)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Closes line and pool."""
        if self._line is not None:
            await self._line.close()
        await super().aclose(close_connection_pool)


def _stay() -> None:
    """Takes a cancellation back that meant the exchange, not the task."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _is_large(args: tuple[Any, ...]) -> bool:
    return sum(len(arg) for arg in args if isinstance(arg, (bytes, str))) > LARGE_BYTES
