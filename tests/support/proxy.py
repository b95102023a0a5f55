"""A TCP proxy that does to a connection what networks do: delay, silence, resets, lost answers.

Comes in: a port. Goes out: another port that leads there, and the ways to make the way there bad.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from typing import Self

LINGER_NONE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a RST."""

OnAnswer = Callable[[bytes, bytes], bool]
"""Told of a marked request and its answer; True loses the answer and resets the connection."""


class _Flow:
    """One connection: both its ends, and whether anything comes through."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near = near
        self.far = far
        self.goes = asyncio.Event()
        self.goes.set()
        self.marked = b""
        """The marked request whose answer is the next."""

    def reset(self) -> None:
        for writer in (self.near, self.far):
            end = writer.get_extra_info("socket")
            if end is not None:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            writer.transport.abort()


class Proxy:
    """Forwards to a port of this machine.

    `delay_s` is waited for before each piece of data; `stall_share` of the pieces wait `stall_s`
    more. With `swallows` new connections are accepted and hear nothing.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows: set[_Flow] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._mark = b""
        self._on_answer: OnAnswer | None = None
        self.delay_s = 0.0
        self.stall_s = 0.0
        self.stall_share = 0.0
        self.swallows = False
        self.random = random.Random(1)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        return self._port

    async def shut(self) -> None:
        """Refuses new connections; those that are there stay."""
        assert self._server is not None
        self._server.close()

    async def open(self) -> None:
        """Takes connections again."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    def freeze(self) -> None:
        """Lets every present connection hang: it stays open, and nothing comes through."""
        for flow in self._flows:
            flow.goes.clear()

    def reset(self) -> None:
        """Cuts every present connection with a RST."""
        for flow in list(self._flows):
            flow.reset()

    def heal(self) -> None:
        """New connections are good again; what hung is cut."""
        self.delay_s = self.stall_s = self.stall_share = 0.0
        self.swallows = False
        self._on_answer = None
        for flow in list(self._flows):
            if not flow.goes.is_set():
                flow.reset()

    def watch(self, mark: bytes, on_answer: OnAnswer) -> None:
        """Calls `on_answer` with what the server says next on a connection that sent `mark`."""
        self._mark, self._on_answer = mark, on_answer

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        flow = _Flow(writer, far_writer)
        if self.swallows:
            flow.goes.clear()
        self._flows.add(flow)
        for source, sink, is_answer in ((reader, far_writer, False), (far_reader, writer, True)):
            task = asyncio.create_task(self._copy(source, sink, flow, is_answer), name="proxy")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        flow: _Flow,
        is_answer: bool,
    ) -> None:
        try:
            while data := await source.read(65536):
                if not is_answer and self._on_answer is not None and self._mark in data:
                    flow.marked = data
                elif not is_answer and flow.marked:
                    flow.marked += data  # the rest of a long request
                elif is_answer and flow.marked and self._loses(data, flow):
                    return
                await self._wait(flow)
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            self._flows.discard(flow)
            sink.close()

    def _loses(self, data: bytes, flow: _Flow) -> bool:
        request, flow.marked = flow.marked, b""
        if self._on_answer is None or not self._on_answer(request, data):
            return False
        flow.reset()
        return True

    async def _wait(self, flow: _Flow) -> None:
        pause_s = self.delay_s
        if self.stall_share and self.random.random() < self.stall_share:
            pause_s += self.stall_s
        if pause_s:
            await asyncio.sleep(pause_s)
        await flow.goes.wait()
