"""The hand of a person in a rehearsal: speak into the fake Discord, and look at its channels.

Comes in: HTTP requests below `/rehearsal`, from loopback. Goes out: JSON. `server` does not know of
it; `python -m ops.rehearsal.discord` adds it.

    curl -d 'what is a queue?' http://127.0.0.1:PORT/rehearsal/say
    curl http://127.0.0.1:PORT/rehearsal/messages
    curl -d '{"command": "ask", "options": {"question": "what is a queue?"}}' .../rehearsal/interact
    curl -d '{"press": "retry:m1", "message": "123"}' .../rehearsal/interact
    curl -d '{"form": "key:personal:openai:1700000000", "options": {"key": "sk-..."}}' .../interact

`rights` are the person's permission bits (32 manages the server), `locale` the language; the answer
has what the person was told, and the window that opened.
"""

import contextlib
from typing import Final

import msgspec
from aiohttp import web

from ops.rehearsal.discord.asked import Asked
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Refusal

ANSWER_S: Final = 5.0
"""What the bot gets before the answer is looked at."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rehearsal takes place: one server, one channel, one person."""

    discord: FakeDiscord
    channel_id: int
    user_id: int


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person wants to do: give a command, press a button of a message, or send a form."""

    command: str = ""
    press: str = ""
    form: str = ""
    message: int = 0
    options: dict[str, str] = msgspec.field(default_factory=dict)
    rights: int = 0
    locale: str = "en-US"


def staged(discord: FakeDiscord) -> Stage:
    """Sets the stage in a fake Discord."""
    guild = discord.world.add_guild("rehearsal")
    channel = discord.world.add_channel(guild.id)
    person = discord.world.add_user("you")
    return Stage(discord=discord, channel_id=channel.id, user_id=person.id)


def control_routes(stage: Stage) -> list[web.RouteDef]:
    """`POST /rehearsal/say` with the text as body, and `GET /rehearsal/messages`."""
    discord = stage.discord

    async def say(request: web.Request) -> web.Response:
        text = (await request.text()).strip()
        try:
            message = await discord.say(
                stage.channel_id, discord.world.users[stage.user_id], discord.mention(text)
            )
        except Refusal as refusal:
            return web.json_response({"error": refusal.message}, status=refusal.status)
        return web.json_response({"message_id": str(message.id)})

    async def messages(_request: web.Request) -> web.Response:
        return web.json_response(
            [
                {
                    "id": str(message.id),
                    "from": discord.world.users[message.author_id].name,
                    "text": message.content,
                    "edits": message.edits,
                }
                for message in discord.world.shown(stage.channel_id)
            ]
        )

    async def interact(request: web.Request) -> web.Response:
        try:
            wish = msgspec.json.decode(await request.read(), type=Wish)
            asked = await _asked(stage, wish)
        except msgspec.MsgspecError as exc:
            return web.json_response({"error": str(exc)}, status=400)
        except Refusal as refusal:
            return web.json_response({"error": refusal.message}, status=refusal.status)
        with contextlib.suppress(TimeoutError):
            await asked.until(lambda one: bool(one.said or one.form or one.message), ANSWER_S)
        return web.json_response({"said": asked.texts, "form": asked.form, "first": asked.first})

    return [
        web.post("/rehearsal/say", say),
        web.get("/rehearsal/messages", messages),
        web.post("/rehearsal/interact", interact),
    ]


async def _asked(stage: Stage, wish: Wish) -> Asked:
    """What the person does, once it is told to the bot."""
    world, asks = stage.discord.world, stage.discord.interactions
    person, rights, locale = world.users[stage.user_id], wish.rights, wish.locale
    if wish.command:
        return await asks.command(
            stage.channel_id, person, wish.command, wish.options, rights=rights, locale=locale
        )
    if wish.press:
        message = world.message(stage.channel_id, wish.message)
        return await asks.press(message, person, wish.press, rights=rights, locale=locale)
    return await asks.submit(
        stage.channel_id, person, wish.form, wish.options, rights=rights, locale=locale
    )
