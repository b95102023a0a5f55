"""`turnfleet discord`: from a token to an answering bot, step by step.

Comes in: settings, and what Discord says of the bot. Goes out: one finding per step of
`docs/discord.md`, or the address that invites the bot. `doctor` changes nothing, but for a typing
sign in the channel that it was asked to look at.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import httpx
import msgspec
import typer

from ops.cli.discord_commands import app as commands
from ops.cli.discord_shards import shards
from ops.cli.doctor import Finding, Verdict
from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_records, say
from shared import __version__
from shared.config import Settings
from shared.configuration.loading import load
from shared.errors import ConfigError
from shared.turns import Front

COLUMNS: Final = ("check", "verdict", "finding", "advice")
CHECK_S: Final = 10.0
"""Discord answers within a second, or it is away."""
STARTS_FLOOR: Final = 100
"""Sessions of a day that should be left: the gateway itself waits below 50."""
USER_AGENT: Final = f"DiscordBot (https://turnfleet.example, {__version__})"
"""Discord refuses bots that do not call themselves so (developer docs, reference)."""

PERMISSIONS: Final = {
    "View Channels": 1 << 10,
    "Send Messages": 1 << 11,
    "Attach Files": 1 << 15,
    "Read Message History": 1 << 16,
    "Send Messages in Threads": 1 << 38,
}
"""What the bot needs: to see, to answer as a reply, and to attach what does not fit."""
INVITE_URL: Final = "https://discord.com/oauth2/authorize"

app = typer.Typer(
    help="Sets the Discord bot up and looks at it.", no_args_is_help=True, rich_markup_mode=None
)

app.add_typer(commands, name="commands")
app.command("shards")(shards)

Channel = Annotated[
    int | None, typer.Option(help="A channel where the bot shall answer: may it?", min=1)
]


@app.command("doctor")
def doctor(output: Output = OutputFormat.TABLE, channel: Channel = None) -> None:
    """Checks token, identity, sessions, servers and, with --channel, the rights in a channel.

    Ends with 2 when something fails, else with 0.
    """
    findings = asyncio.run(examine(load(os.environ).settings, channel))
    rows = [msgspec.structs.asdict(finding) for finding in findings]
    print_records(
        [{**row, "verdict": str(row["verdict"])} for row in rows], COLUMNS, output, empty=""
    )
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(Exit.BAD_INPUT)


@app.command("invite-url")
def invite_url(
    application: Annotated[
        int | None, typer.Option(help="The application's id, if not the token's.", min=1)
    ] = None,
) -> None:
    """Prints the address that invites the bot to a server, with the rights that it needs."""
    application_id = application or bot_id_of(load(os.environ).settings.discord_token or "")
    if application_id is None:
        raise ConfigError(
            "TURNFLEET_DISCORD_TOKEN is not set or no token: set it, or give --application ID"
        )
    typer.echo(invitation(application_id))
    say(f"It asks for: {', '.join(PERMISSIONS)}.")


def invitation(application_id: int) -> str:
    """The address that invites a bot.

    >>> invitation(7)
    'https://discord.com/oauth2/authorize?client_id=7&scope=bot&permissions=274878008320'
    """
    rights = sum(PERMISSIONS.values())
    query = urlencode({"client_id": application_id, "scope": "bot", "permissions": rights})
    return f"{INVITE_URL}?{query}"


def bot_id_of(token: str) -> int | None:
    """The bot's id, which is the first part of its token in base64; None for what is no token.

    >>> bot_id_of("MTIzNDU2.x.y")
    123456
    """
    first, _, rest = token.strip().partition(".")
    if "." not in rest:
        return None
    try:
        text = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return int(text) if text.isdigit() else None


async def examine(settings: Settings, channel_id: int | None = None) -> list[Finding]:
    """Runs the checks in the order of `docs/discord.md`; the first that fails ends them."""
    findings = [_front(settings)]
    token = settings.discord_token
    if not token:
        advice = "create a bot, then set TURNFLEET_DISCORD_TOKEN (docs/discord.md, steps 1 and 2)"
        return [*findings, _finding("token", Verdict.FAIL, "none is set", advice)]
    if bot_id_of(token) is None:
        advice = "copy the token of the page Bot anew, not the client secret or the public key"
        return [*findings, _finding("token", Verdict.FAIL, "it has no token's form", advice)]
    async with httpx.AsyncClient(
        base_url=settings.discord_rest_url,
        headers={"Authorization": f"Bot {token}", "User-Agent": USER_AGENT},
        timeout=CHECK_S,
    ) as client:
        checks: list[Callable[[httpx.AsyncClient], Awaitable[Finding]]] = [
            _identity,
            _sessions,
            _guilds,
        ]
        if channel_id is not None:
            checks += [_seeing(channel_id), _reading(channel_id), _speaking(channel_id)]
        for check in checks:
            try:
                finding = await check(client)
            except _Refused as refused:
                finding = refused.finding
            findings.append(finding)
            if finding.verdict is Verdict.FAIL:
                break
    return findings


class _Refused(Exception):
    """Discord did not give what was asked for."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.finding)
        self.finding = finding


def _front(settings: Settings) -> Finding:
    if settings.front == Front.DISCORD:
        return _finding("front", Verdict.OK, "the gateway serves Discord")
    advice = "set TURNFLEET_FRONT=discord, then restart the gateway"
    return _finding("front", Verdict.WARN, f"the gateway serves {settings.front} only", advice)


async def _identity(client: httpx.AsyncClient) -> Finding:
    me = await _ask(client, "token", "GET", "/users/@me")
    return _finding("token", Verdict.OK, f"it belongs to {me.get('username')} ({me.get('id')})")


async def _sessions(client: httpx.AsyncClient) -> Finding:
    gateway = await _ask(client, "sessions", "GET", "/gateway/bot")
    limit = gateway.get("session_start_limit", {})
    left, total = int(limit.get("remaining", 0)), int(limit.get("total", 0))
    text = f"{left} of {total} session starts left today, {gateway.get('shards')} shard(s) wanted"
    if left < STARTS_FLOOR:
        advice = "find out what restarts so often: at none left, Discord resets the token"
        return _finding("sessions", Verdict.WARN, text, advice)
    return _finding("sessions", Verdict.OK, text)


async def _guilds(client: httpx.AsyncClient) -> Finding:
    found = await _ask_list(client, "servers", "/users/@me/guilds")
    if not found:
        advice = "open what `turnfleet discord invite-url` prints (docs/discord.md, step 3)"
        return _finding("servers", Verdict.WARN, "the bot is in no server", advice)
    return _finding("servers", Verdict.OK, f"the bot is in {len(found)} server(s)")


def _seeing(channel_id: int) -> Callable[[httpx.AsyncClient], Awaitable[Finding]]:
    async def check(client: httpx.AsyncClient) -> Finding:
        channel = await _ask(client, "see", "GET", f"/channels/{channel_id}")
        return _finding("see", Verdict.OK, f"#{channel.get('name') or 'direct messages'}")

    return check


def _reading(channel_id: int) -> Callable[[httpx.AsyncClient], Awaitable[Finding]]:
    async def check(client: httpx.AsyncClient) -> Finding:
        await _ask_list(client, "history", f"/channels/{channel_id}/messages?limit=1")
        return _finding("history", Verdict.OK, "missed prompts can be found, replies can refer")

    return check


def _speaking(channel_id: int) -> Callable[[httpx.AsyncClient], Awaitable[Finding]]:
    async def check(client: httpx.AsyncClient) -> Finding:
        await _ask(client, "speak", "POST", f"/channels/{channel_id}/typing")
        return _finding("speak", Verdict.OK, "a typing sign was shown")

    return check


async def _ask(client: httpx.AsyncClient, check: str, method: str, path: str) -> dict[str, Any]:
    answer = await _request(client, check, method, path)
    return answer if isinstance(answer, dict) else {}


async def _ask_list(client: httpx.AsyncClient, check: str, path: str) -> list[Any]:
    answer = await _request(client, check, "GET", path)
    return answer if isinstance(answer, list) else []


async def _request(client: httpx.AsyncClient, check: str, method: str, path: str) -> object:
    try:
        response = await client.request(method, path)
    except httpx.HTTPError as exc:
        advice = "check the network, the proxy and TURNFLEET_DISCORD_REST_URL"
        text = f"Discord does not answer ({type(exc).__name__})"
        raise _Refused(_finding(check, Verdict.FAIL, text, advice)) from exc
    if response.is_success:
        return response.json() if response.content else {}
    text = f"Discord answers {response.status_code}"
    advice = _ADVICE.get(response.status_code, "look at Discord's status page and try again")
    raise _Refused(_finding(check, Verdict.FAIL, text, advice))


_ADVICE: Final = {
    401: "the token was reset: copy the new one from the page Bot",
    403: "give the bot's role the right in this channel (docs/discord.md, step 4)",
    404: "there is no such channel, or the bot is not in its server",
    429: "too many requests: wait some minutes, and look what sends them",
}


def _finding(check: str, verdict: Verdict, finding: str, advice: str = "") -> Finding:
    return Finding(check=check, verdict=verdict, finding=finding, advice=advice)
