"""`turnfleet discord commands`: tells Discord which commands the bot has.

Comes in: settings. Goes out: one bulk registration, or what it would be. `ops.cli.discord` adds it.
Discord keeps what it was told until it is told anew, so this is run after an update.
"""

import asyncio
import os
from typing import Annotated, Final

import httpx
import typer

from ops.cli.output import Output, OutputFormat, print_records, say
from shared import __version__
from shared.commands import registration
from shared.configuration.loading import load
from shared.errors import ConfigError
from shared.i18n import load_texts

COLUMNS: Final = ("name", "type", "options", "languages")
CALL_S: Final = 30.0
USER_AGENT: Final = f"DiscordBot (https://turnfleet.example, {__version__})"
_KINDS: Final = {1: "command", 3: "message"}

app = typer.Typer(
    help="The bot's commands, as Discord lists them.", no_args_is_help=True, rich_markup_mode=None
)

Guild = Annotated[
    int | None,
    typer.Option(min=1, help="Only there, and at once; without it everywhere."),
]


@app.command("list")
def list_(output: Output = OutputFormat.TABLE) -> None:
    """Shows the commands that this version has."""
    _print(registration(load_texts()), output)


@app.command("sync")
def sync(guild: Guild = None, output: Output = OutputFormat.TABLE) -> None:
    """Registers them with Discord; those that it knew before and that are gone disappear."""
    settings = load(os.environ).settings
    if not settings.discord_token:
        raise ConfigError("TURNFLEET_DISCORD_TOKEN is not set (docs/discord.md, step 2)")
    bodies = registration(load_texts())
    asyncio.run(register(settings.discord_rest_url, settings.discord_token, bodies, guild))
    _print(bodies, output)
    say(f"Registered {len(bodies)} commands {'everywhere' if guild is None else f'in {guild}'}.")


async def register(
    rest_url: str, token: str, bodies: list[dict[str, object]], guild_id: int | None
) -> None:
    """Sends the registration.

    Raises:
        ConfigError: Discord refuses it, or does not answer.
    """
    headers = {"Authorization": f"Bot {token}", "User-Agent": USER_AGENT}
    async with httpx.AsyncClient(base_url=rest_url, headers=headers, timeout=CALL_S) as client:
        me = await _ask(client, "GET", "/applications/@me")
        place = "" if guild_id is None else f"/guilds/{guild_id}"
        await _ask(client, "PUT", f"/applications/{_id_of(me)}{place}/commands", bodies)


async def _ask(client: httpx.AsyncClient, method: str, path: str, body: object = None) -> object:
    try:
        response = await client.request(method, path, json=body)
    except httpx.HTTPError as exc:
        raise ConfigError(f"Discord does not answer ({type(exc).__name__})") from exc
    if not response.is_success:
        raise ConfigError(
            f"Discord answers {response.status_code} to {method} {path}: "
            "look at the token with `turnfleet discord doctor`"
        )
    found: object = response.json()
    return found


def _id_of(me: object) -> str:
    return str(me.get("id")) if isinstance(me, dict) else ""


def _print(bodies: list[dict[str, object]], output: OutputFormat) -> None:
    rows = [
        {
            "name": body["name"],
            "type": _KINDS.get(_int(body["type"]), "?"),
            "options": ", ".join(_names(body.get("options"))),
            "languages": ", ".join(_languages(body.get("name_localizations"))),
        }
        for body in bodies
    ]
    print_records(rows, COLUMNS, output, empty="")


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _names(options: object) -> list[str]:
    return [str(one["name"]) for one in options] if isinstance(options, list) else []


def _languages(localizations: object) -> list[str]:
    return sorted(localizations) if isinstance(localizations, dict) else []
