"""The gateway protocol: HELLO, IDENTIFY, RESUME, heartbeats, dispatches (developer docs, gateway).

Comes in: clients' frames, events of the world. Goes out: frames, compressed as one zlib stream per
connection when the client asks for it. `server` owns it.
"""

import asyncio
import json
import secrets
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from ops.rehearsal.discord.payloads import Json, guild_json, own_user_json
from ops.rehearsal.discord.world import User, World

HEARTBEAT_MS: Final = 41_250
MAX_BUFFERED: Final = 1_000
"""Events that a session which is away can be told when it resumes."""
PRIVILEGED: Final = (1 << 1) | (1 << 8) | (1 << 15)
"""Members, presences, message content."""
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
        *,
        is_compressed: bool,
    ) -> None:
        self.socket = socket
        self.transport = transport
        self.session: Session | None = None
        self.is_closed_by_us = False
        self._stream = zlib.compressobj() if is_compressed else None
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
        async with self._lock:  # a zlib stream must reach the client in the order it was made
            if self.socket.closed:
                return
            try:
                if self._stream is None:
                    await self.socket.send_str(text)
                    return
                packed = self._stream.compress(text.encode())
                await self.socket.send_bytes(packed + self._stream.flush(zlib.Z_SYNC_FLUSH))
            except ConnectionError:
                return


class Sockets:
    """All sessions and connections.

    Args:
        world: people and channels.
        bot_of: the bot that a token belongs to.
        url: where a client resumes.
    """

    def __init__(
        self, world: World, bot_of: Callable[[str], User | None], url: Callable[[], str]
    ) -> None:
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

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Takes one client for as long as it stays."""
        socket = web.WebSocketResponse(compress=False, max_msg_size=1 << 20)
        await socket.prepare(request)
        is_compressed = request.query.get("compress") == "zlib-stream"
        connection = Connection(socket, request.transport, is_compressed=is_compressed)
        self.connections.add(connection)
        try:
            await connection.send(_HELLO, {"heartbeat_interval": self.heartbeat_ms})
            async for frame in socket:
                if frame.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self._take(connection, frame.data)
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

    async def _take(self, connection: Connection, raw: str | bytes) -> None:
        try:
            payload: dict[str, Any] = json.loads(raw)
            op = int(payload["op"])
        except (ValueError, KeyError, TypeError):
            await connection.close(4002)
            return
        data = payload.get("d")
        if op == _HEARTBEAT:
            if not self.is_deaf:
                await connection.send(_ACK, None)
        elif op == _IDENTIFY:
            await self._identify(connection, data or {})
        elif op == _RESUME:
            await self._resume(connection, data or {})
        elif connection.session is None:
            await connection.close(4003)
        elif op not in _HARMLESS:
            await connection.close(4001)

    async def _identify(self, connection: Connection, data: dict[str, Any]) -> None:
        if connection.session is not None:
            await connection.close(4005)
            return
        bot = self._bot_of(str(data.get("token", "")))
        if bot is None:
            await connection.close(4004)
            return
        intents = int(data.get("intents", 0))
        if intents & PRIVILEGED and not self.allows_privileged:
            await connection.close(4014)
            return
        self.identifies += 1
        number, count = data.get("shard") or (0, 1)
        session = Session(bot, intents, (int(number), int(count)))
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
        oldest = session.buffer[0][0] if session is not None and session.buffer else 1
        if session is None or bot is not session.bot or seq + 1 < oldest or seq > session.seq:
            await connection.send(_INVALID, False)
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

    def _join(self, session: Session, connection: Connection) -> None:
        session.connection = connection
        connection.session = session

    def _leave(self, connection: Connection) -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        goodbyes = (WSCloseCode.OK, WSCloseCode.GOING_AWAY)
        if not connection.is_closed_by_us and connection.socket.close_code in goodbyes:
            # The client said goodbye; every other end keeps the session for a while.
            self.sessions.pop(session.id, None)
