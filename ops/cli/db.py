"""`turnfleet db`: the operators' database itself.

Comes in: the settings. Goes out: a database with this version's tables.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_record, say
from ops.cli.session import database, fleet
from ops.store.migrate import SchemaState, schema_state
from ops.store.migrate import upgrade as bring_up
from ops.store.mirror import Mirror
from ops.store.retention import forget_old
from ops.triage.errors import count_errors

app = typer.Typer(help="The operators' database.", no_args_is_help=True)


@app.command()
def upgrade(output: Output = OutputFormat.TABLE) -> None:
    """Makes the tables, or brings them to this version. Running it again changes nothing."""

    async def run() -> tuple[str, SchemaState]:
        async with database(read_only=False) as opened:
            return opened.name, await bring_up(opened)

    name, before = asyncio.run(run())
    done = "nothing to do" if before.is_current else "upgraded"
    facts = {"database": name, "before": before.current, "now": before.wanted, "result": done}
    print_record(facts, output)


@app.command()
def status(
    output: Output = OutputFormat.TABLE,
    check: Annotated[bool, typer.Option(help="End with 3 when an upgrade is due.")] = False,
) -> None:
    """Shows where the database stands."""

    async def run() -> tuple[str, SchemaState, int | None]:
        async with database() as opened:
            state = await schema_state(opened)
            rows = await count_errors(opened) if state.is_current else None
            return opened.name, state, rows

    name, state, rows = asyncio.run(run())
    print_record(
        {"database": name, "now": state.current, "wanted": state.wanted, "errors": rows}, output
    )
    if not state.is_current:
        say("An upgrade is due: turnfleet db upgrade")
        if check:
            raise typer.Exit(Exit.FOUND)


@app.command("restore-redis")
def restore_redis(output: Output = OutputFormat.TABLE) -> None:
    """Gives an empty Redis its settings, personas and sealed credentials back from the database.

    What Redis has already stays as it is. The recorder mirrors them every few seconds.
    """

    async def run() -> dict[str, int]:
        async with fleet() as link, database() as opened:
            return await Mirror(opened, link.redis, link.keys).restore()

    written = asyncio.run(run())
    print_record(written, output)
    say(f"{sum(written.values())} values were written.")


@app.command()
def maintain(output: Output = OutputFormat.TABLE) -> None:
    """Deletes what is older than its retention, in small steps. For cron, once a day."""

    async def run() -> dict[str, int]:
        async with database(read_only=False) as opened:
            return await forget_old(opened, datetime.now(UTC))

    print_record(asyncio.run(run()), output)
