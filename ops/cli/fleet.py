"""`turnfleet fleet`: what waits and runs, and what an operator can do about it.

Comes in: names from the command line. Goes out: tables of the queue and its workers; orders to
workers, pauses, repairs of the queue's books.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from ops.cli.exits import Exit, NotFound
from ops.cli.filters import given
from ops.cli.output import (
    Output,
    OutputFormat,
    Record,
    print_record,
    print_records,
    say,
    say_title,
)
from ops.cli.session import Fleet, fleet, span
from shared.edges.backlog import Backlog
from shared.edges.orders import Order, give_order
from shared.edges.overview import FleetStatus, Overview
from shared.edges.records import ProcessRecord

app = typer.Typer(
    help="What waits and runs; workers, pauses, and the queue's books.", no_args_is_help=True
)

GUILD_COLUMNS: Final = ("guild", "queued", "running", "parked", "delayed", "oldest_s")
WORKER_COLUMNS: Final = (
    "worker",
    "state",
    "running",
    "slots",
    "lag_ms",
    "looked_s",
    "version",
    "since",
)
PARTITION_COLUMNS: Final = ("partition", "leader", "entries", "oldest_s")
PAUSE_COLUMNS: Final = ("paused", "left_s", "parked_lanes")
FINDING_COLUMNS: Final = ("what", "whom", "found", "expected")
KINDS: Final = ("guild", "key", "provider", "model")
SHOWN_GUILDS: Final = 20
"""In a table; JSON has all."""

Names = Annotated[
    list[str], typer.Argument(help="Workers, or how their names begin.", callback=given)
]
What = Annotated[
    str,
    typer.Argument(help="fleet, guild=ID, provider=NAME, model=PROVIDER/MODEL, key=PROVIDER:WHOSE"),
]


@app.command()
def status(output: Output = OutputFormat.TABLE) -> None:
    """Shows what waits and runs by guild, workers, pauses, and what is on its way to channels."""

    async def ask() -> dict[str, list[Record]]:
        async with fleet() as link:
            found = await Overview(link.queue).status()
            workers = await _workers(link)
            partitions = [
                {
                    "partition": one.number,
                    "leader": one.leader,
                    "entries": one.entries,
                    "oldest_s": _seconds(one.oldest_ms),
                }
                for one in await Backlog(link.redis, link.keys).delivery()
            ]
        return {
            "totals": [_totals(found, workers)],
            "guilds": _guilds(found),
            "workers": [_worker(one) for one in workers],
            "pauses": _pauses(found),
            "partitions": list(partitions),
        }

    parts = asyncio.run(ask())
    if output is not OutputFormat.TABLE:
        totals = parts.pop("totals")[0]
        print_record({**totals, **parts}, output)
        return
    print_record(parts["totals"][0], output)
    for title, columns, rows in (
        ("Guilds", GUILD_COLUMNS, parts["guilds"][:SHOWN_GUILDS]),
        ("Workers", WORKER_COLUMNS, parts["workers"]),
        ("Paused", PAUSE_COLUMNS, parts["pauses"]),
        ("On the way to channels", PARTITION_COLUMNS, parts["partitions"]),
    ):
        if rows:
            say_title(title)
            print_records(rows, columns, output, empty="")


@app.command()
def workers(output: Output = OutputFormat.TABLE) -> None:
    """Lists the workers that live."""

    async def ask() -> list[Record]:
        async with fleet() as link:
            return [_worker(one) for one in await _workers(link)]

    print_records(asyncio.run(ask()), WORKER_COLUMNS, output, empty="No worker lives.")


@app.command()
def drain(names: Names) -> None:
    """Lets workers take nothing new, end what runs, hand back the rest, and exit."""
    _order(names, Order.DRAIN, "drains")


@app.command()
def cordon(names: Names) -> None:
    """Lets workers take nothing new; what runs goes on, and the processes stay."""
    _order(names, Order.CORDON, "takes nothing new")


@app.command()
def uncordon(names: Names) -> None:
    """Lets cordoned workers take turns again."""
    _order(names, Order.UNCORDON, "takes turns")


@app.command()
def pause(
    what: What = "fleet",
    length: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="Ends by itself: 90s, 15m, 2h.")
    ] = None,
) -> None:
    """Starts nothing of it any more; what runs goes on, what waits keeps its place.

    A turn that waits longer than its deadline ends with a notice, paused or not.
    """
    name = _name(what)
    seconds = None if length is None else span(length).total_seconds()

    async def act() -> float:
        async with fleet() as link:
            await link.queue.pause(name, seconds)
            return link.queue.policy.wait_ms / 1000

    longest_s = asyncio.run(act())
    say(f"{what} is paused " + ("until `fleet resume`." if length is None else f"for {length}."))
    if seconds is None or seconds > longest_s:
        say(
            f"A prompt that waits longer than {longest_s:g} s ends as request_timeout meanwhile: "
            "pause for less, or let gateways admit with a longer TURNFLEET_TURN_DEADLINE_S; "
            "`turnfleet turns replay --cause request_timeout` gives what ended its reply."
        )


@app.command()
def resume(what: What = "fleet") -> None:
    """Ends a pause."""
    name = _name(what)

    async def act() -> bool:
        async with fleet() as link:
            was_paused = name in (await Overview(link.queue).status()).pauses
            await link.queue.resume(name)
            return was_paused

    if not asyncio.run(act()):
        raise NotFound(f"{what} was not paused")
    say(f"{what} goes on.")


@app.command()
def audit(
    repair: Annotated[bool, typer.Option("--repair", help="Puts right what it finds.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Compares the queue's counters and lists with its turns.

    Ends with 3 when something is wrong and was not repaired.
    """

    async def ask() -> list[Record]:
        async with fleet() as link:
            return [
                {
                    "what": one.what,
                    "whom": one.whom,
                    "found": one.found,
                    "expected": one.expected,
                }
                for one in await Overview(link.queue).audit(repair=repair)
            ]

    rows = asyncio.run(ask())
    print_records(rows, FINDING_COLUMNS, output, empty="The books are right.")
    if rows and repair:
        say(f"{len(rows)} findings, put right.")
    elif rows:
        say(f"{len(rows)} findings; `turnfleet fleet audit --repair` puts them right.")
        raise typer.Exit(Exit.FOUND)


def _order(names: list[str], order: Order, done: str) -> None:
    async def act() -> list[str]:
        async with fleet() as link:
            living = await _workers(link)
            chosen = [_the(name, living) for name in names]
            for one in chosen:
                await give_order(link.redis, link.keys, one.process_id, order)
            return [one.process_id for one in chosen]

    for worker_id in asyncio.run(act()):
        say(f"{worker_id} {done}.")


def _the(name: str, living: list[ProcessRecord]) -> ProcessRecord:
    """The one worker of a name, or of a name's beginning."""
    found = [one for one in living if one.process_id == name]
    found = found or [one for one in living if one.process_id.startswith(name)]
    if not found:
        known = ", ".join(one.process_id for one in living) or "none"
        raise NotFound(f"no worker {name} lives; those that do: {known}")
    if len(found) > 1:
        raise typer.BadParameter(f"{name!r} begins {len(found)} names of workers; write more of it")
    return found[0]


def _name(what: str) -> str:
    """A pause as Redis names it, which is how `status` shows it, too."""
    kind, _, whose = what.replace("=", ":", 1).partition(":")
    if what == "fleet":
        return what
    if kind not in KINDS or not whose:
        raise typer.BadParameter(
            f"{what!r}: write fleet, guild=ID, provider=NAME, model=PROVIDER/MODEL "
            "or key=PROVIDER:WHOSE"
        )
    return f"{kind}:{whose}"


async def _workers(link: Fleet) -> list[ProcessRecord]:
    found = [one for one in await link.records.processes() if one.role == "worker"]
    return sorted(found, key=lambda one: one.process_id)


def _totals(found: FleetStatus, living: list[ProcessRecord]) -> Record:
    running = sum(one.running for one in found.guilds)
    return {
        "queued": found.waiting,
        "running": running,
        "parked": sum(one.parked for one in found.guilds),
        "delayed": sum(one.delayed for one in found.guilds),
        "oldest_s": _seconds(found.oldest_ms),
        "slots": sum(one.slots for one in living if not (one.is_draining or one.is_cordoned)),
        "running_by_key": found.keys,
    }


def _guilds(found: FleetStatus) -> list[Record]:
    return [
        {
            "guild": one.guild,
            "queued": one.queued,
            "running": one.running,
            "parked": one.parked,
            "delayed": one.delayed,
            "oldest_s": _seconds(one.oldest_ms),
        }
        for one in found.guilds
    ]


def _pauses(found: FleetStatus) -> list[Record]:
    """Pauses, and what waits for a slot of a key, which is none."""
    rows: list[Record] = [
        {
            "paused": name,
            "left_s": None if left_ms is None else _seconds(left_ms),
            "parked_lanes": found.parkings.get(f"={name}", 0),
        }
        for name, left_ms in found.pauses.items()
    ]
    full = {name: n for name, n in found.parkings.items() if not name.startswith("=")}
    rows += [{"paused": f"slots of {name}", "parked_lanes": n} for name, n in full.items()]
    return rows


def _worker(one: ProcessRecord) -> Record:
    state = "draining" if one.is_draining else "cordoned" if one.is_cordoned else "taking turns"
    return {
        "worker": one.process_id,
        "state": state,
        "running": one.running,
        "slots": one.slots,
        "lag_ms": one.loop_lag_ms,
        "looked_s": _seconds(one.looked_ms),
        "version": one.version,
        "since": datetime.fromtimestamp(one.started_ms / 1000, UTC),
    }


def _seconds(ms: int) -> float:
    return round(ms / 1000, 1)
