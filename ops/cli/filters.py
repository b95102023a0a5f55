"""The options by which commands choose failures: one word for one thing, whatever the command.

Comes in: nothing. Goes out: types for the parameters of commands. Only `ops.cli` imports it.
"""

from typing import Annotated, TypeVar

import typer

V = TypeVar("V", bound=str | list[str] | None)


def given(value: V) -> V:
    """A value as it is; an empty one chooses nothing, or everything, and is refused.

    A script whose variable is not set gives one.

    Raises:
        typer.BadParameter: it is empty.
    """
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and not one.strip():
            raise typer.BadParameter("it is empty; a variable that is not set?")
    return value


Since = Annotated[str, typer.Option(metavar="SPAN", help="How far back: 90s, 15m, 24h, 7d.")]
Cause = Annotated[
    str | None,
    typer.Option(help="A cause's word, a group's hash, or its beginning.", callback=given),
]
Category = Annotated[
    str | None, typer.Option(help="api_error, rate_limit, timeout, ...", callback=given)
]
Guild = Annotated[int | None, typer.Option(help="A guild's id.")]
Channel = Annotated[int | None, typer.Option(help="A channel's id.")]
User = Annotated[int | None, typer.Option(help="A user's id.")]
Provider = Annotated[str | None, typer.Option(help="A provider's name.", callback=given)]
Model = Annotated[str | None, typer.Option(help="A model's id.", callback=given)]
Key = Annotated[str | None, typer.Option(help="A key's fingerprint.", callback=given)]
Worker = Annotated[str | None, typer.Option(help="A worker's id.", callback=given)]
Turn = Annotated[str | None, typer.Option(help="A turn's id.", callback=given)]
Containing = Annotated[
    str | None, typer.Option("--text", help="Part of the message.", callback=given)
]
