"""`errors import`: reports from files back into the database.

Comes in: a spool, an overflow of the recorder, or the JSON log of any process. Goes out: rows, each
once, however often a line is imported or was recorded before.
"""

import asyncio
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_record, say
from ops.cli.session import database, fleet
from ops.store.forgotten import Forgotten
from ops.store.lines import OLDEST, Imported, import_lines
from ops.store.migrate import upgrade
from shared.errors import ConfigError, StoreError


def import_(
    files: Annotated[
        list[Path] | None, typer.Argument(help="NDJSON files; without any, stdin is read.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Stores the reports of spools, overflows and JSON logs. What is there already stays as it is.

    Ends with 1 when lines could not be read or stored; the others are stored.
    """

    async def run() -> Imported:
        total, gone = Imported(), await _forgotten()
        async with database(read_only=False) as opened:
            await upgrade(opened)
            for lines in _sources(files):
                now = datetime.now(UTC)
                done = await import_lines(opened, lines, now, forgotten=gone, refuse_old=True)
                total = total.plus(done)
        return total

    total = asyncio.run(run())
    print_record(msgspec.structs.asdict(total), output)
    if total.bad:
        say(f"{total.bad} lines are no reports, or the database refuses them.")
    if total.old:
        say(f"{total.old} lines are older than {OLDEST.days} days: nothing of then is kept.")
    if total.bad or total.old:
        raise typer.Exit(Exit.FAILED)


async def _forgotten() -> frozenset[str]:
    """Who was forgotten since the lines were written; without a fleet, nobody that we know of."""
    try:
        async with fleet() as link, database() as opened:
            return await Forgotten(opened, link.redis, link.keys).digests()
    except (ConfigError, StoreError) as exc:
        say(f"not looked up who was forgotten meanwhile: {exc}")
        return frozenset()


def _sources(files: list[Path] | None) -> Iterable[Iterable[bytes]]:
    if not files:
        yield sys.stdin.buffer
        return
    for path in files:
        try:
            with path.open("rb") as lines:
                yield lines
        except OSError as exc:
            raise ConfigError(f"cannot read {path}: {exc.strerror}") from exc
