"""A bare client of Discord's gateway protocol: it says what it is told to, and no more.

hikari and discord.py are too well behaved to show what Discord refuses.
"""

import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from ops.rehearsal.discord.compression import zstd_library
from ops.rehearsal.discord.server import FakeDiscord

HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 1, 2, 6, 7, 9, 10, 11
INTENTS = 1 << 0 | 1 << 9 | 1 << 12


class RawClient:
    """One socket."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, unpack: Callable[[bytes], bytes]
    ) -> None:
        self._socket = socket
        self._unpack = unpack

    async def send(self, op: int, data: object = None) -> None:
        await self._socket.send_bytes(json.dumps({"op": op, "d": data}).encode())

    async def send_text(self, text: str) -> None:
        await self._socket.send_str(text)

    async def next(self) -> dict[str, Any]:
        """The next payload; `{"closed": code}` when there is none any more."""
        frame = await self._socket.receive(timeout=10)
        if frame.type is aiohttp.WSMsgType.TEXT:
            found: dict[str, Any] = json.loads(frame.data)
            return found
        if frame.type is aiohttp.WSMsgType.BINARY:
            unpacked: dict[str, Any] = json.loads(self._unpack(frame.data))
            return unpacked
        return {"closed": self._socket.close_code}

    async def until(self, name: str | int) -> dict[str, Any]:
        """The next event of a name, or payload of a number; or how the socket was closed."""
        while True:
            payload = await self.next()
            if "closed" in payload or name in (payload["op"], payload["t"]):
                return payload

    async def identify(self, token: str, **facts: object) -> dict[str, Any]:
        """Begins a session: READY, or what came in its place."""
        data = {"token": token, "intents": INTENTS, "properties": {}, **facts}
        await self.send(IDENTIFY, data)
        while True:
            payload = await self.next()
            if "closed" in payload or payload["t"] == "READY" or payload["op"] == INVALID:
                return payload

    async def resume(self, token: str, session_id: str, seq: int) -> dict[str, Any]:
        await self.send(RESUME, {"token": token, "session_id": session_id, "seq": seq})
        return await self.next()

    async def close(self, code: int = 1000) -> None:
        await self._socket.close(code=code)


@asynccontextmanager
async def raw_client(
    fake: FakeDiscord, *, version: int = 10, compress: str = ""
) -> AsyncIterator[RawClient]:
    query = f"?v={version}&encoding=json" + (f"&compress={compress}" if compress else "")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(fake.socket_url + query) as socket,
    ):
        yield RawClient(socket, _unpacker(compress))


def _unpacker(compress: str) -> Callable[[bytes], bytes]:
    if compress == "zlib-stream":
        return zlib.decompressobj().decompress
    if compress == "zstd-stream":
        unpack: Callable[[bytes], bytes] = zstd_library().ZstdDecompressor().decompress
        return unpack
    return bytes
