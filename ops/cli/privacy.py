"""`turnfleet privacy`: forgets people and guilds, and says what went.

Comes in: an id. Goes out: a receipt. It looks through Redis and the database; the recorder sees to
what is still on its way.
"""

import asyncio
from typing import Annotated

import typer

from ops.cli.output import Output, OutputFormat, print_record, print_records, say
from ops.cli.session import Fleet, database, fleet
from ops.store.forgotten import forget_rows, receipt
from shared.edges.forgetting import Forgetter, Kind, Subject
from shared.edges.redis import within

COLUMNS = ("subject", "due_ms")

app = typer.Typer(help="What is kept of people and guilds.", no_args_is_help=True)


@app.callback()
def privacy() -> None:
    """What is kept of people and guilds."""


@app.command()
def forget(
    user: Annotated[int | None, typer.Option(min=1, help="A person's id.")] = None,
    guild: Annotated[int | None, typer.Option(min=1, help="A guild's id.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Removes what Redis holds of somebody, and their id from every row of the database.

    Their turns are stopped, their credentials revoked. Counts and costs stay, without a name. The
    receipt says how much went; docs/privacy.md says what this cannot reach.
    """
    if (user is None) is (guild is None):
        raise typer.BadParameter("name one: --user ID or --guild ID")
    subject = Subject(Kind.USER, user) if user is not None else Subject(Kind.GUILD, guild or 0)
    print_record(receipt(subject, asyncio.run(_forget(subject))), output)


@app.command()
def due(output: Output = OutputFormat.TABLE) -> None:
    """Shows who will be forgotten, and when: guilds that removed the bot, after 30 days."""

    async def rows() -> list[dict[str, object]]:
        async with fleet() as link:
            found: list[tuple[bytes, float]] = await within(
                link.redis.zrange(link.keys.forget_due, 0, -1, withscores=True)
            )
        return [{"subject": name.decode(), "due_ms": int(when)} for name, when in found]

    print_records(asyncio.run(rows()), COLUMNS, output, empty="Nobody is to be forgotten.")


async def _forget(subject: Subject) -> dict[str, int]:
    async with fleet() as link, database(read_only=False) as opened:
        counts = await _forgetter(link).forget(subject)
        if opened.is_missing():
            say("There is no database here; a recorder takes the ids out of its rows.")
            return counts
        rows = await forget_rows(opened, subject)
        # The recorder need not do it again; what comes late finds the subject among the forgotten.
        await within(link.redis.zrem(link.keys.forget_rows, str(subject)))
        return {**counts, "rows": rows}


def _forgetter(link: Fleet) -> Forgetter:
    return Forgetter(link.redis, link.keys, link.queue)
