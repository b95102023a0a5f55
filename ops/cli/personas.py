"""`turnfleet personas`: who the bot may be, and who it is where.

Comes in: the configuration file, and what guilds and channels chose. Goes out: records. The file
has the personas; here one is given to a guild or channel, as `/persona` does.
"""

import asyncio
import difflib
import os
from typing import Annotated

import msgspec
import typer

from ops.cli.choosing import owner_of
from ops.cli.exits import NotFound
from ops.cli.output import Output, OutputFormat, print_record, print_records, say
from ops.cli.session import fleet
from shared.configuration.choices import Persona
from shared.configuration.loading import load
from shared.configuration.settling import NO_PERSONA
from shared.edges.choices import ChoicesStore

COLUMNS = ("persona", "name", "speaks_as", "model", "delivery_mode", "locale", "age_restricted")

app = typer.Typer(
    help="Who the bot may be.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Guild = Annotated[int | None, typer.Option(min=1, help="A guild's id.")]
Channel = Annotated[int | None, typer.Option(min=1, help="A channel's or thread's id.")]


@app.command("list")
def list_(output: Output = OutputFormat.TABLE) -> None:
    """Lists the personas of the configuration file."""
    rows = [_row(name, one) for name, one in load(os.environ).configuration.personas.items()]
    print_records(rows, COLUMNS, output, empty="No personas. docs/configuration.md says how.")


@app.command("show")
def show(persona: str, output: Output = OutputFormat.TABLE) -> None:
    """Shows one persona whole, and which guilds and channels chose it."""
    found = _persona(persona)

    async def chosen() -> list[str]:
        async with fleet() as opened:
            every = await ChoicesStore(opened.redis, opened.keys).every()
        return sorted(owner for owner, one in every.items() if one.persona == persona)

    record = _row(persona, found) | {"system": found.system, "avatar": found.avatar or "-"}
    print_record(record | {"chosen_by": ", ".join(asyncio.run(chosen())) or "-"}, output)


@app.command("use")
def use(
    persona: Annotated[str, typer.Argument(help=f"A persona, or `{NO_PERSONA}` for none.")],
    guild: Guild = None,
    channel: Channel = None,
) -> None:
    """Gives a persona to a guild or a channel; it answers from the next prompt on."""
    scope, owner = owner_of(guild, channel, None)
    if persona != NO_PERSONA:
        _persona(persona)

    async def change() -> None:
        async with fleet() as opened:
            store = ChoicesStore(opened.redis, opened.keys)
            old = await store.read(scope, owner)
            await store.write(scope, owner, msgspec.structs.replace(old, persona=persona))

    asyncio.run(change())
    say(f"{persona} answers in {scope} {owner}.")


def _persona(name: str) -> Persona:
    personas = load(os.environ).configuration.personas
    if name not in personas:
        near = difflib.get_close_matches(name, personas, n=1)
        hint = f"did you mean {near[0]}?" if near else "`turnfleet personas list` has them"
        raise NotFound(f"there is no persona {name}; {hint}")
    return personas[name]


def _row(name: str, one: Persona) -> dict[str, object]:
    return {
        "persona": name,
        "name": one.name,
        "speaks_as": "bot" if one.as_bot else "webhook",
        "model": one.model or "-",
        "delivery_mode": one.delivery_mode or "-",
        "locale": one.locale or "-",
        "age_restricted": one.age_restricted,
    }
