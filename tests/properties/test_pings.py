"""No text pings anybody, on any path that leads to Discord."""

import asyncio
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Button, OutgoingFile, OutgoingMessage
from ops.rehearsal.discord.server import FakeDiscord
from tests.support.discord import WIDE, MemoryMarks

MENTIONS = ["@everyone", "@here", "<@5>", "<@!5>", "<@&7>", "\\@everyone", "`@here`", "<@5", "hi "]
texts = st.lists(st.sampled_from(MENTIONS), min_size=1, max_size=8).map("".join)


@given(
    cases=st.lists(
        st.tuples(texts, st.booleans(), st.booleans(), st.booleans()), min_size=5, max_size=5
    )
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nobody_is_pinged_by_what_is_sent_or_edited(cases):
    asyncio.run(_run(cases))


async def _run(cases: list[tuple[str, bool, bool, bool]]) -> None:
    discord = FakeDiscord(rates=WIDE)
    await discord.start()
    channel = discord.world.add_channel(discord.world.add_guild().id)
    person = discord.world.add_user("ann", user_id=5)
    prompt = await discord.say(channel.id, person, "hello")
    options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
    front = DiscordFront(options, MemoryMarks())
    try:
        await front.connect()
        file = OutgoingFile(name="a.txt", data=b"@everyone")
        for number, (text, is_reply, has_file, may_ping) in enumerate(cases):
            message = OutgoingMessage(
                channel_id=channel.id,
                text=text,
                nonce=f"n{number}",
                reply_to=prompt.id if is_reply else None,
                files=(file,) if has_file else (),
                may_ping=(5,) if may_ping else (),
                buttons=(Button(custom_id="x", label="@everyone"),),
                is_notice=not has_file,
            )
            await front.send(message)
            last = discord.replies(channel.id)[-1]
            pinged = may_ping and re.search(r"<@!?5>", text) is not None
            assert last.pings == ((5,) if pinged else ())
            await front.edit(channel.id, last.id, text, files=message.files)
        said = [call for call in discord.calls if call.method in {"POST", "PATCH"}]
        for call in said:
            allowed = call.body["allowed_mentions"]
            assert allowed["parse"] == []
            assert set(allowed.get("users", ())) <= {"5", 5}
            assert not allowed.get("roles")
            assert not allowed.get("replied_user")
        assert len(said) == 2 * len(cases)
    finally:
        await front.close()
        await discord.stop()
