"""`errors export` and `errors forget`: rows for other programs, and people taken out of them.

Comes in: filters and ids. Goes out: all rows that match, page by page, however many they are.
"""

import asyncio
import csv
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from ops.cli import filters as by
from ops.cli.narrowing import errors_by
from ops.cli.output import OutputFormat, print_record, say
from ops.cli.session import database
from ops.cli.terminal import csv_cell
from ops.replay.anonymous import StandIns
from ops.store.engine import Database
from ops.store.forgetting import forget_guild, forget_user
from ops.triage.errors import MAX_ROWS, ErrorFilter, ErrorRecord, list_errors

_PRIVATE = frozenset({"guild_id", "channel_id", "user_id", "turn_id"})
_COLUMNS = tuple(field.name for field in msgspec.structs.fields(ErrorRecord))


class ExportFormat(StrEnum):
    """How rows are exported."""

    NDJSON = "ndjson"
    CSV = "csv"


def export(
    since: by.Since = "24h",
    cause: by.Cause = None,
    category: by.Category = None,
    guild: by.Guild = None,
    channel: by.Channel = None,
    user: by.User = None,
    provider: by.Provider = None,
    model: by.Model = None,
    key: by.Key = None,
    worker: by.Worker = None,
    turn: by.Turn = None,
    text: by.Containing = None,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="One JSON object a line, or CSV.")
    ] = ExportFormat.NDJSON,
    anonymise: Annotated[
        bool, typer.Option(help="Ids as marks of this export, in texts as other numbers.")
    ] = False,
) -> None:
    """Writes every error that matches to stdout, the newest first, with all its facts."""
    wanted = errors_by(
        since=since,
        cause=cause,
        category=category,
        guild=guild,
        channel=channel,
        user=user,
        provider=provider,
        model=model,
        key=key,
        worker=worker,
        turn=turn,
        text=text,
        limit=MAX_ROWS,
    )
    write = _csv_writer() if form is ExportFormat.CSV else _write_line
    stand_ins = StandIns("", secrets.token_bytes(16)) if anonymise else None

    async def run() -> int:
        count = 0
        async with database() as opened:
            async for record in pages(opened, wanted):
                facts = msgspec.structs.asdict(record)
                write(_anonymous(facts, stand_ins) if stand_ins else facts)
                count += 1
        return count

    say(f"{asyncio.run(run())} errors.")


def forget(
    user: Annotated[int | None, typer.Option(help="A user's id.")] = None,
    guild: Annotated[int | None, typer.Option(help="A guild's id.")] = None,
) -> None:
    """Takes a person's or a guild's id out of all rows; what failed and what it cost stays."""
    if (user is None) == (guild is None):
        raise typer.BadParameter("give --user or --guild")

    async def run() -> int:
        async with database(read_only=False) as opened:
            if user is not None:
                return await forget_user(opened, user)
            return await forget_guild(opened, guild or 0)

    say(f"{asyncio.run(run())} rows no longer have it.")


async def pages(opened: Database, wanted: ErrorFilter) -> AsyncIterator[ErrorRecord]:
    """Every error that matches, the newest first, read in pages of the filter's limit."""
    while True:
        page = await list_errors(opened, wanted)
        for record in page:
            yield record
        if len(page) < wanted.limit:
            return
        last = page[-1]
        wanted = msgspec.structs.replace(wanted, before=(last.created_at, last.seq))


def _write_line(facts: dict[str, object]) -> None:
    print_record(facts, OutputFormat.NDJSON)


def _csv_writer() -> Callable[[dict[str, object]], None]:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)

    def write(facts: dict[str, object]) -> None:
        writer.writerow([_csv_value(facts[name]) for name in _COLUMNS])

    return write


def _csv_value(value: object) -> object:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return csv_cell(text)


def _anonymous(facts: dict[str, object], stand_ins: StandIns) -> dict[str, object]:
    """The same id has the same mark within an export, and nobody finds the id from it.

    A turn's id is made of a message's, which leads to the channel. Ids in texts become other
    numbers.
    """
    changed: dict[str, object] = {}
    for name, value in facts.items():
        if name in _PRIVATE:
            changed[name] = None if value is None else stand_ins.mark(value)
        elif isinstance(value, str):
            changed[name] = stand_ins.text(value)
        elif isinstance(value, dict):
            changed[name] = stand_ins.facts(value)
        else:
            changed[name] = value
    return changed
