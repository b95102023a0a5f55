"""A tool as its author writes it: what the model sees of it, and the function that runs.

Comes in: nothing. Goes out: the values that a package registers under the entry point group
`turnfleet.tools`, and what a running tool is told. Pure; anyone may import it, plug-ins only this
and `shared.errors.ToolError`.

    async def roll(args: dict[str, object], context: ToolContext) -> object:
        return 4

    ROLL = Tool(name="roll", description="Rolls a die.", parameters={"type": "object"}, run=roll)

    [project.entry-points."turnfleet.tools"]
    roll = "my_package:ROLL"
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

ENTRY_POINTS: Final = "turnfleet.tools"
"""The group whose entry points are a `Tool` or an iterable of them."""
NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""What all four wire formats take as a name (OpenAI: 64 characters; Google: no digit first)."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a tool runs. Snowflakes are integers; a direct message has no guild."""

    turn_id: str
    channel_id: int
    user_id: int
    guild_id: int | None = None
    locale: str = "en"


RunTool = Callable[[dict[str, object], ToolContext], Awaitable[object]]
"""Takes arguments that fit the schema. Gives text, or a value that is told as JSON."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool.

    Args:
        name: as the model calls it.
        description: what it does and when to use it, for the model.
        parameters: the JSON schema of its arguments, of type `object`.
        run: is awaited on the worker's loop: what blocks belongs into a thread. It may be
            cancelled at any moment, and raises `ToolError` for failures that have a name.
        repeatable: running it twice does no more than running it once. When a worker dies while
            another kind of tool runs, the turn ends with a notice instead of starting over.
    """

    name: str
    description: str
    parameters: dict[str, object]
    run: RunTool
    repeatable: bool = False
