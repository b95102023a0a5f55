"""The gateway protocol: HELLO, IDENTIFY, RESUME, heartbeats, dispatches (developer docs, gateway).

Comes in: clients' frames, events of the world. Goes out: frames, compressed as one stream per
connection when the client asks for it. `server` owns it.
"""

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from ops.rehearsal.discord.compression import Pack, Unsupported, stream_of
from ops.rehearsal.discord.handshakes import (
    GUILDS_PER_SHARD,
    VERSIONS,
    Starts,
    Turnstile,
    why_not,
)
from ops.rehearsal.discord.payloads import Json, guild_json, own_user_json
from ops.rehearsal.discord.world import User, World

HEARTBEAT_MS: Final = 41_250
MAX_BUFFERED: Final = 1_000
"""Events that a session which is away can be told when it resumes."""
SESSION_KEEPS_S: Final = 180.0
"""How long a session waits for its client: Discord says "a few minutes"."""
LATE: Final = 1.5
"""After so many intervals without a heartbeat a client is taken for dead."""
START_WINDOW_S: Final = 5.0
DIRECT_MESSAGES: Final = 1 << 12
GUILD_MESSAGES: Final = 1 << 9
MESSAGE_CONTENT: Final = 1 << 15
GUILDS: Final = 1 << 0

_DISPATCH, _HEARTBEAT, _IDENTIFY, _RESUME, _RECONNECT = 0, 1, 2, 6, 7
_INVALID, _HELLO, _ACK = 9, 10, 11
_HARMLESS = frozenset({3, 4, 8, 31})


class Session:
    """What Discord remembers of a client, also while it is not connected."""

    def __init__(self, bot: User, intents: int, shard: tuple[int, int]) -> None:
        self.id = secrets.token_hex(16)
        self.bot = bot
        self.intents = intents
        self.shard = shard
        self.seq = 0
        self.buffer: deque[tuple[int, str]] = deque(maxlen=MAX_BUFFERED)
        self.connection: Connection | None = None
        self.left_s: float | None = None
        """When its client went away."""

    def sees(self, guild_id: int | None) -> bool:
        """Whether events of a guild, or of direct messages, go to this shard."""
        number, count = self.shard
        return number == (0 if guild_id is None else (guild_id >> 22) % count)


class Connection:
    """One socket."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.WriteTransport | None,
        pack: Pack | None,
    ) -> None:
        self.socket = socket
        self.transport = transport
        self.session: Session | None = None
        self.is_closed_by_us = False
        self.beat_s = 0.0
        self.turnstile = Turnstile()
        self._pack = pack
        self._lock = asyncio.Lock()

    async def close(self, code: int) -> None:
        """Closes the socket from our side; the session lives on, whatever the client answers."""
        self.is_closed_by_us = True
        await self.socket.close(code=code)

    async def send(self, op: int, data: object, *, name: str | None = None, seq: int = 0) -> None:
        """Sends one payload; a socket that is gone takes it silently."""
        payload = {"op": op, "d": data, "t": name, "s": seq if name else None}
        await self.send_text(json.dumps(payload, separators=(",", ":")))

    async def send_text(self, text: str) -> None:
        """Sends a payload that is encoded already."""
        async with self._lock:  # a compressed stream must reach the client in the order it was made
            if self.socket.closed:
                return
            try:
                if self._pack is None:
                    await self.socket.send_str(text)
                else:
                    await self.socket.send_bytes(self._pack(text))
            except ConnectionError:
                return


class Sockets:
    """All sessions and connections.

    Args:
        world: people and channels.
        bot_of: the bot that a token belongs to.
        url: where a client resumes.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        world: World,
        bot_of: Callable[[str], User | None],
        url: Callable[[], str],
        now_s: Callable[[], float],
    ) -> None:
        self._now_s = now_s
        self.starts = Starts(START_WINDOW_S)
        self.guilds_per_shard = GUILDS_PER_SHARD
        self.session_keeps_s = SESSION_KEEPS_S
        self._world = world
        self._bot_of = bot_of
        self._url = url
        self.sessions: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        self.heartbeat_ms = HEARTBEAT_MS
        self.is_deaf = False
        """Heartbeats are not acknowledged: the client must notice that the socket is dead."""
        self.allows_privileged = False
        self.identifies = 0
        self.resumes = 0
        self.refused: list[int] = []
        """The codes that connections were closed with for what their clients did."""
        self.compressions: list[str | None] = []
        """What clients asked for, connection by connection."""

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Takes one client for as long as it stays."""
        socket = web.WebSocketResponse(compress=False, max_msg_size=1 << 20)
        await socket.prepare(request)
        try:
            pack = stream_of(request.query.get("compress"))
        except Unsupported:
            await socket.close(code=4002)
            return socket
        connection = Connection(socket, request.transport, pack)
        self.compressions.append(request.query.get("compress"))
        self.connections.add(connection)
        try:
            if request.query.get("v") not in VERSIONS:
                await connection.close(4012)
                return socket
            await connection.send(_HELLO, {"heartbeat_interval": self.heartbeat_ms})
            await self._listen(connection)
        finally:
            self.connections.discard(connection)
            self._leave(connection)
        return socket

    async def tell(self, session: Session, name: str, data: Json) -> None:
        """Sends an event to one session."""
        await self._tell(session, name, data)

    async def ask_reconnect(self) -> None:
        """Op 7: every client shall come back and resume."""
        for connection in list(self.connections):
            await connection.send(_RECONNECT, None)

    async def invalidate(self, *, resumable: bool) -> None:
        """Op 9 to every client."""
        if not resumable:
            self.sessions.clear()
        for connection in list(self.connections):
            await connection.send(_INVALID, resumable)

    async def close_all(self, code: int) -> None:
        """Closes every socket with a code, as Discord does when something is wrong."""
        for connection in list(self.connections):
            await connection.close(code)

    def cut_all(self) -> None:
        """Cuts every socket without a word, as a network does."""
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _listen(self, connection: Connection) -> None:
        """Takes frames until the client goes, or is silent for too long."""
        connection.beat_s = self._now_s()
        while True:
            left_s = connection.beat_s + LATE * self.heartbeat_ms / 1000 - self._now_s()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    frame = await connection.socket.receive()
            except TimeoutError:
                await self._refuse(connection, 4009)
                return
            if frame.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return
            if not connection.turnstile.lets(self._now_s()):
                await self._refuse(connection, 4008)
                return
            await self._take(connection, frame.data)

    async def _refuse(self, connection: Connection, code: int) -> None:
        self.refused.append(code)
        await connection.close(code)

    async def _take(self, connection: Connection, raw: str | bytes) -> None:
        try:
            payload: dict[str, Any] = json.loads(raw)
            op = int(payload["op"])
        except (ValueError, KeyError, TypeError):
            await self._refuse(connection, 4002)
            return
        data = payload.get("d")
        if op == _HEARTBEAT:
            connection.beat_s = self._now_s()
            if not self.is_deaf:
                await connection.send(_ACK, None)
        elif op == _IDENTIFY:
            await self._identify(connection, data or {})
        elif op == _RESUME:
            await self._resume(connection, data or {})
        elif connection.session is None:
            await self._refuse(connection, 4003)
        elif op not in _HARMLESS:
            await self._refuse(connection, 4001)

    async def _identify(self, connection: Connection, data: dict[str, Any]) -> None:
        if connection.session is not None:
            await self._refuse(connection, 4005)
            return
        bot = self._bot_of(str(data.get("token", "")))
        code = 4004 if bot is None else None
        code = code or why_not(
            data,
            guilds=self._world.guilds,
            guilds_per_shard=self.guilds_per_shard,
            allows_privileged=self.allows_privileged,
        )
        if code is not None or bot is None:
            await self._refuse(connection, code or 4004)
            return
        number, count = data.get("shard") or (0, 1)
        if not self.starts.lets(number, self._now_s()):
            await connection.send(_INVALID, False)
            return
        self.identifies += 1
        session = Session(bot, int(data["intents"]), (number, count))
        self.sessions[session.id] = session
        self._join(session, connection)
        await self._welcome(session)

    async def _welcome(self, session: Session) -> None:
        seen = [guild for guild in self._world.guilds.values() if session.sees(guild.id)]
        ready: Json = {
            "v": 10,
            "user": own_user_json(session.bot),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in seen],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self._url(),
            "shard": list(session.shard),
            "application": {"id": str(session.bot.id), "flags": 0},
            "private_channels": [],
            "relationships": [],
            "presences": [],
        }
        await self._tell(session, "READY", ready)
        if session.intents & GUILDS:
            for guild in seen:
                await self._tell(
                    session, "GUILD_CREATE", guild_json(guild, self._world, session.bot)
                )

    async def _resume(self, connection: Connection, data: dict[str, Any]) -> None:
        session = self.sessions.get(str(data.get("session_id", "")))
        bot = self._bot_of(str(data.get("token", "")))
        seq = int(data.get("seq") or 0)
        if session is None or bot is not session.bot or not self._keeps(session, seq):
            await connection.send(_INVALID, False)
            return
        if seq > session.seq:
            await self._refuse(connection, 4007)
            return
        self.resumes += 1
        while missed := [event for event in session.buffer if event[0] > seq]:
            for seq, text in missed:  # noqa: B007 -- how far the client is now
                await connection.send_text(text)
        # Nothing new came since the last look: from here on events go to this socket.
        self._join(session, connection)
        await self._tell(session, "RESUMED", {})

    async def _tell(self, session: Session, name: str, data: Json) -> None:
        session.seq += 1
        payload = {"op": _DISPATCH, "d": data, "t": name, "s": session.seq}
        text = json.dumps(payload, separators=(",", ":"))
        session.buffer.append((session.seq, text))
        if session.connection is not None:
            await session.connection.send_text(text)

    def _keeps(self, session: Session, seq: int) -> bool:
        """Whether a session is still there, with all that came after a number."""
        left_s = session.left_s
        is_late = left_s is not None and self._now_s() - left_s > self.session_keeps_s
        oldest = session.buffer[0][0] if session.buffer else 1
        return not is_late and seq + 1 >= oldest

    def _join(self, session: Session, connection: Connection) -> None:
        session.connection = connection
        session.left_s = None
        connection.session = session

    def _leave(self, connection: Connection) -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        session.left_s = self._now_s()
        goodbyes = (WSCloseCode.OK, WSCloseCode.GOING_AWAY)
        if not connection.is_closed_by_us and connection.socket.close_code in goodbyes:
            # The client said goodbye; every other end keeps the session for a while.
            self.sessions.pop(session.id, None)
