"""`turnfleet db`: the operators' database itself.

Comes in: the settings. Goes out: a database with this version's tables.
"""

import asyncio
import os
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_record, say
from ops.cli.session import database, fleet
from ops.store.migrate import SchemaState, schema_state
from ops.store.migrate import upgrade as bring_up
from ops.store.mirror import Loss, Mirror
from ops.store.retention import forget_old
from ops.store.spent import spent_in_month
from ops.triage.errors import count_errors
from shared.configuration.loading import load
from shared.edges.spending import Spending

app = typer.Typer(help="The operators' database.", no_args_is_help=True)

NEWER: Final = "A newer version made this schema; this version works on it and leaves it as it is."


@app.command("migrate", hidden=True)
@app.command()
def upgrade(output: Output = OutputFormat.TABLE) -> None:
    """Makes the tables, or brings them to this version. Running it again changes nothing."""

    async def run() -> tuple[str, SchemaState]:
        async with database(read_only=False) as opened:
            return opened.name, await bring_up(opened)

    name, before = asyncio.run(run())
    now = before.wanted if before.is_due else before.current
    done = "upgraded" if before.is_due else "nothing to do"
    facts = {"database": name, "before": before.current, "now": now, "result": done}
    print_record(facts, output)
    if before.is_newer:
        say(NEWER)


@app.command()
def status(
    output: Output = OutputFormat.TABLE,
    check: Annotated[bool, typer.Option(help="End with 3 when an upgrade is due.")] = False,
) -> None:
    """Shows where the database stands."""

    async def run() -> tuple[str, SchemaState, int | None]:
        async with database() as opened:
            state = await schema_state(opened)
            rows = None if state.is_due else await count_errors(opened)
            return opened.name, state, rows

    name, state, rows = asyncio.run(run())
    print_record(
        {"database": name, "now": state.current, "wanted": state.wanted, "errors": rows}, output
    )
    if state.is_newer:
        say(NEWER)
    if state.is_due:
        say("An upgrade is due: turnfleet db upgrade")
        if check:
            raise typer.Exit(Exit.FOUND)


@app.command("restore-redis")
def restore_redis(
    dry_run: Annotated[bool, typer.Option(help="Only say what would be written.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Gives a Redis that lost something what the database has: one that is empty, or an old dump.

    Settings, personas, sealed credentials, pauses, who is to be forgotten; and, from the ledger,
    what budgets have spent this month. What was changed since the server started stays as it is.
    The recorder mirrors every few seconds.
    """

    async def run() -> tuple[Loss, int]:
        async with fleet() as link, database() as opened:
            mirror, spending = (
                Mirror(opened, link.redis, link.keys),
                Spending(link.redis, link.keys),
            )
            loaded = load(os.environ)
            addresses = loaded.settings.endpoints
            now = datetime.now(UTC)
            due = await spent_in_month(opened, loaded.configuration, now, addresses)
            if dry_run:
                return await mirror.loss(), await spending.lack(due)
            loss = await mirror.restore()
            for key, name in loss.values:
                if key == link.keys.pauses and loss.values[key, name] is None:
                    await link.queue.resume(name)  # the old dump had it: its turns were parked
            return loss, await spending.raise_to(due)

    loss, raised = asyncio.run(run())
    print_record({**loss.by_key(), "budgets": raised}, output)
    said = "would be" if dry_run else "were"
    say(f"Redis is {loss.standing}: {len(loss.values)} values {said} written, {raised} budgets.")


@app.command("accept-redis")
def accept_redis(
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Keeps a Redis as it is that has less than the mirror: what only the mirror has is given up.

    For a server that was emptied or taken back to an old dump on purpose. Without --yes it only
    says what would be given up.
    """

    async def run() -> Loss:
        async with fleet() as link, database() as opened:
            mirror = Mirror(opened, link.redis, link.keys)
            loss = await mirror.loss()
            if yes:
                await mirror.accept()
            return loss

    loss = asyncio.run(run())
    print_record(loss.by_key(), output)
    said = "are" if yes else "would be"
    end = "" if yes else "; --yes does it"
    say(f"Redis is {loss.standing}: {len(loss.values)} values of the mirror {said} given up{end}.")


@app.command()
def maintain(output: Output = OutputFormat.TABLE) -> None:
    """Deletes what is older than its retention, in small steps. For cron, once a day."""

    async def run() -> dict[str, int]:
        async with database(read_only=False) as opened:
            return await forget_old(opened, datetime.now(UTC))

    print_record(asyncio.run(run()), output)
