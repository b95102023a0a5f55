"""The hand of a person in a rehearsal: speak into the fake Discord, and look at its channels.

Comes in: HTTP requests below `/rehearsal`, from loopback. Goes out: JSON. `server` does not know of
it; `python -m ops.rehearsal.discord` adds it.

    curl -d 'what is a queue?' http://127.0.0.1:PORT/rehearsal/say
    curl http://127.0.0.1:PORT/rehearsal/messages
"""

import msgspec
from aiohttp import web

from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Refusal


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rehearsal takes place: one server, one channel, one person."""

    discord: FakeDiscord
    channel_id: int
    user_id: int


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

    return [web.post("/rehearsal/say", say), web.get("/rehearsal/messages", messages)]
