"""A TCP proxy that can fall silent, as a network does that drops packets without a word."""

import asyncio
from typing import Self


class SilentProxy:
    """Forwards to a port until `freeze`; connections made afterwards are forwarded again."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows: list[asyncio.Event] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def freeze(self) -> None:
        """Lets every present connection hang: it stays open, and nothing comes through."""
        for flow in self._flows:
            flow.clear()
        self._flows.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        flow = asyncio.Event()
        flow.set()
        self._flows.append(flow)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._copy(source, sink, flow), name="proxy")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _copy(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, flow: asyncio.Event
    ) -> None:
        try:
            while data := await source.read(65536):
                await flow.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
