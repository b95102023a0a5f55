"""A replay asks Discord for the addresses of attachments again: over the fake Discord."""

import msgspec

from ops.replay.attachments import refresher
from shared.config import Settings
from shared.history import Attachment, Reading
from shared.turns import Front, TurnRequest
from tests.support.discord import running_discord
from tests.support.turns import turn


def request_of(channel_id: int, reading: Reading) -> TurnRequest:
    made = turn()
    route = msgspec.structs.replace(made.route, front=Front.DISCORD, channel_id=channel_id)
    return msgspec.structs.replace(made, route=route, reading=reading)


def file(number: int, url: str) -> dict[str, object]:
    return {
        "id": str(number),
        "filename": "cat.png",
        "size": 10,
        "url": url,
        "proxy_url": url,
        "content_type": "image/png",
    }


async def test_addresses_are_asked_for_again():
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id)
        person = discord.world.add_user("ann")
        bea = await discord.say(channel.id, person, "look", attachments=(file(8, "https://new/8"),))
        prompt = await discord.say(
            channel.id, person, "what?", attachments=(file(7, "https://new/7"),)
        )
        reading = Reading(
            before=prompt.id,
            reply_to=bea.id,
            attachments=tuple(
                Attachment(id=number, name="cat.png", url=f"https://old/{number}")
                for number in (7, 8, 9)
            ),
        )
        asked = request_of(channel.id, reading)
        settings = Settings(discord_token=discord.token, discord_rest_url=discord.rest_url)
        fresh = await refresher(settings)(asked)
        assert fresh.reading is not None
        assert [one.url for one in fresh.reading.attachments] == [
            "https://new/7",
            "https://new/8",
            "https://old/9",
        ]
        assert await refresher(Settings())(asked) == asked  # without a token nobody is asked
        await discord.remove(prompt)
        gone = await refresher(settings)(asked)
        assert gone.reading is not None
        assert gone.reading.attachments[0].url == "https://old/7"
    away = await refresher(settings)(asked)  # Discord does not answer at all
    assert away == asked
