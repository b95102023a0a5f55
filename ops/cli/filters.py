"""The options by which commands choose failures: one word for one thing, whatever the command.

Comes in: nothing. Goes out: types for the parameters of commands. Only `ops.cli` imports it.
"""

from typing import Annotated

import typer

Since = Annotated[str, typer.Option(metavar="SPAN", help="How far back: 90s, 15m, 24h, 7d.")]
Cause = Annotated[str | None, typer.Option(help="A cause's word, or a group's hash.")]
Category = Annotated[str | None, typer.Option(help="api_error, rate_limit, timeout, ...")]
Guild = Annotated[int | None, typer.Option(help="A guild's id.")]
Channel = Annotated[int | None, typer.Option(help="A channel's id.")]
User = Annotated[int | None, typer.Option(help="A user's id.")]
Provider = Annotated[str | None, typer.Option(help="A provider's name.")]
Model = Annotated[str | None, typer.Option(help="A model's id.")]
Key = Annotated[str | None, typer.Option(help="A key's fingerprint.")]
Worker = Annotated[str | None, typer.Option(help="A worker's id.")]
Turn = Annotated[str | None, typer.Option(help="A turn's id.")]
Containing = Annotated[str | None, typer.Option("--text", help="Part of the message.")]
