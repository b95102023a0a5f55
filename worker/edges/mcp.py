"""Tools of MCP servers: connected while the worker runs, offered while they answer.

Comes in: the operator's servers, by name: an address (streamable HTTP), or the words of a command
(stdio). Goes out: their tools in the `Toolbox`, named `<server>_<tool>`. The SDK is the extra
`mcp`; it is imported only where a server is configured. `worker.app` runs it.

A server that is away has no tools; it is tried again for ever. What a server says of a failure goes
to nobody: the model hears a word and a status.
"""

import asyncio
import contextlib
import logging
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from shared.errors import ConfigError, ToolError
from shared.logs import fields
from shared.tools import Tool, ToolContext
from worker.edges.tools import Toolbox

CONNECT_S = 15.0
"""For connecting and listing: `npx` fetches nothing at start, but a cold Node takes seconds."""
LOOK_S = 60.0
"""How often a server is asked for its tools again: it notices one that died or changed."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Between tries; a server that is being restarted is back within some seconds."""
MAX_PAGES = 10
MAX_DESCRIPTION_CHARS = 1024
"""OpenAI's limit of a function's description; each is paid for with every request."""
MAX_NAME_CHARS = 64

Where = str | Sequence[str]

log = logging.getLogger(__name__)


class McpServers:
    """The configured servers.

    Args:
        servers: address or command by name.
        toolbox: where their tools are put.
        look_s: seconds between looks, for tests.

    Raises:
        ConfigError: an address cannot be read, or the SDK is not installed.
    """

    def __init__(
        self, servers: Mapping[str, Where], toolbox: Toolbox, *, look_s: float = LOOK_S
    ) -> None:
        self._servers = dict(servers)
        self._toolbox = toolbox
        self._look_s = look_s
        self._tried = {name: asyncio.Event() for name in servers}
        if servers:
            _sdk()
            self._client = _guarded(servers)

    async def run(self) -> None:
        """Keeps the connections until it is cancelled; then they are closed."""
        async with asyncio.TaskGroup() as group:
            for name, where in self._servers.items():
                group.create_task(self._keep(name, where), name=f"mcp {name}")

    async def first_tries(self) -> None:
        """Waits until every server has answered once, or failed to."""
        for tried in self._tried.values():
            await tried.wait()

    async def _keep(self, name: str, where: Where) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            try:
                await self._serve(name, where)
            except Exception as exc:  # the SDK raises whatever its transports do
                log.warning("mcp.away", extra=fields(server=name, exception=type(exc).__name__))
                log.debug("mcp.traceback", exc_info=exc)
            was_up = self._toolbox.drop(name)
            self._tried[name].set()
            wait_s = FIRST_WAIT_S if was_up else min(LONGEST_WAIT_S, wait_s * 2)
            await asyncio.sleep(wait_s)

    async def _serve(self, name: str, where: Where) -> None:
        """One connection, from its first answer to the first sign that it is gone."""
        sdk = _sdk()
        broken = asyncio.Event()
        async with asyncio.timeout(CONNECT_S) as connecting:
            async with self._connection(sdk, where) as client:
                while True:
                    self._toolbox.put(name, await _tools(name, client, broken))
                    connecting.reschedule(None)
                    self._tried[name].set()
                    try:
                        async with asyncio.timeout(self._look_s):
                            await broken.wait()
                    except TimeoutError:
                        connecting.reschedule(asyncio.get_running_loop().time() + CONNECT_S)
                        continue
                    return

    @contextlib.asynccontextmanager
    async def _connection(self, sdk: Any, where: Where) -> AsyncIterator[Any]:
        if not isinstance(where, str):
            from mcp.client.stdio import stdio_client

            command, *args = where
            target = sdk.StdioServerParameters(command=command, args=args)
            # What a server says on stderr may be anything, prompts too: it is in no log of ours.
            nowhere: Any = subprocess.DEVNULL
            async with sdk.Client(stdio_client(target, errlog=nowhere)) as client:
                yield client
            return
        from mcp.client.streamable_http import streamable_http_client

        async with (
            self._client() as http,
            sdk.Client(streamable_http_client(where, http_client=http)) as client,
        ):
            yield client


async def _tools(server: str, client: Any, broken: asyncio.Event) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += [_tool(server, one, client, broken) for one in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _tool(server: str, listed: Any, client: Any, broken: asyncio.Event) -> Tool:
    name: str = listed.name

    async def run(args: dict[str, object], _context: ToolContext) -> object:
        return await _call(client, name, args, broken)

    return Tool(
        name=re.sub(r"[^a-zA-Z0-9_-]", "_", f"{server}_{name}")[:MAX_NAME_CHARS],
        description=(listed.description or "")[:MAX_DESCRIPTION_CHARS],
        # Which draft it is written in says nothing to a model, and not every vendor reads it.
        parameters={key: value for key, value in listed.input_schema.items() if key != "$schema"},
        run=run,
        repeatable=_is_repeatable(listed.annotations),
    )


def _is_repeatable(hints: Any) -> bool:
    """What the server says of its tool; the operator trusts the server, or would not name it."""
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


async def _call(client: Any, name: str, args: dict[str, object], broken: asyncio.Event) -> str:
    """Calls a tool. Cancelled, the server is told so, and the connection stays."""
    sdk = _sdk()
    try:
        result = await client.call_tool(name, args)
    except sdk.MCPError as exc:
        code: int = exc.error.code
        if code != sdk.types.CONNECTION_CLOSED:
            raise ToolError("refused", code) from exc
        broken.set()
        raise ToolError("unreachable") from exc
    except Exception as exc:  # the SDK raises whatever its transports do
        broken.set()
        raise ToolError("unreachable") from exc
    if result.is_error:
        raise ToolError("reported_error")
    return "\n".join(map(_text, result.content))


def _text(block: Any) -> str:
    text: object = getattr(block, "text", None)
    return text if isinstance(text, str) else f"[a block of type {block.type} is not shown]"


def _guarded(servers: Mapping[str, Where]) -> Callable[[], Any]:
    """Makes clients that reach what the operator named."""
    from worker.edges.mcp_http import guard_of_servers, guarded_client

    guard = guard_of_servers({name: at for name, at in servers.items() if isinstance(at, str)})
    return lambda: guarded_client(guard)


def _sdk() -> Any:
    """The SDK. It takes half a second to import, so only those who use it do."""
    try:
        import mcp
    except ImportError as exc:
        raise ConfigError(
            "TURNFLEET_MCP names servers, but the MCP SDK is not installed: "
            "pip install 'turnfleet[mcp]'"
        ) from exc
    return mcp


def prefixes(servers: Iterable[str]) -> tuple[str, ...]:
    """What the names of tools of these servers begin with, for allow-lists that name them."""
    return tuple(f"{re.sub(r'[^a-zA-Z0-9_-]', '_', server)}_" for server in servers)
