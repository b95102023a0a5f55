"""An MCP server for tests: `python -m tests.support.mcp_server stdio | <port>`.

Its tools: `add`, `boom` (raises), `slow`, `picture` (no text), `quit` (the process dies).
"""

import asyncio
import os
import sys

from mcp.server import MCPServer
from mcp.types import ImageContent

server = MCPServer("rehearsal")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def boom() -> str:
    """Fails, with words that nobody should read."""
    raise ValueError("the password is hunter2")


@server.tool()
async def slow() -> str:
    """Takes too long."""
    await asyncio.sleep(60)
    return "late"


@server.tool()
def picture() -> ImageContent:
    """Gives a picture."""
    return ImageContent(type="image", data="AA==", mime_type="image/png")


@server.tool()
async def quit() -> str:
    """Dies."""
    os._exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
