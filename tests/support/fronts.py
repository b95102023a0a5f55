"""Where people talk in a scenario: the local channel, or the fake Discord, in one shape.

Comes in: prompts. Goes out: what a channel shows, and what it showed at every moment before.
"""

from collections.abc import Iterable
from typing import Any, Protocol, cast

import msgspec
from redis.asyncio import Redis

from ops.rehearsal.discord.server import FakeDiscord
from shared.edges.local_channel import ChangeKind, LocalChannel, LocalMessage, local_turn_id
from shared.keys import Keys
from shared.turns import Target

NAME = "ann"
"""Who speaks; the model reads the name before the prompt, and an echo has it too."""


def paragraphs(messages: Iterable[str]) -> list[str]:
    """The texts of messages by paragraph: where limits are felt, several go into one message."""
    return [
        part.removeprefix(f"{NAME}: ") for message in messages for part in message.split("\n\n")
    ]


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of a channel: what had just happened, and what the bot's messages were then."""

    at_ms: int
    word: str
    texts: tuple[str, ...]


class Talk(Protocol):
    """A front, as people use it."""

    name: str

    async def open(self, guild: int) -> int:
        """A new channel of a guild."""
        ...

    async def say(self, channel: int, guild: int, text: str, model: str, nonce: str) -> str:
        """Writes a prompt, once per nonce; the id of the turn that it becomes."""
        ...

    async def shown(self, channel: int) -> list[str]:
        """The bot's messages, oldest first."""
        ...

    async def armed(self, channel: int) -> list[str] | None:
        """The turns that a button below a message would stop; None where there are no buttons."""
        ...

    async def film(self, channel: int) -> list[Frame]:
        """Everything that happened in a channel. Words: `asked`, `sign`, `posted`, `changed`."""
        ...


class LocalTalk:
    """`Talk` over the local channel."""

    name = "local"

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._channel = LocalChannel(redis, keys)
        self._opened = 0

    async def open(self, guild: int) -> int:
        self._opened += 1
        return guild * 100_000 + self._opened

    async def say(self, channel: int, guild: int, text: str, model: str, nonce: str) -> str:
        message = LocalMessage(
            channel_id=channel,
            user_id=9,
            text=text,
            guild_id=guild,
            target=Target(provider="rehearsal", model=model),
            nonce=nonce,
        )
        return local_turn_id((await self._channel.post(message)).message_id)

    async def shown(self, channel: int) -> list[str]:
        return [m.text for m in await self._channel.messages(channel) if m.is_bot]

    async def armed(self, channel: int) -> list[str] | None:
        return None

    async def film(self, channel: int) -> list[Frame]:
        frames: list[Frame] = []
        texts: dict[int, str] = {}
        newest: Any = await self._redis.xrevrange(self._keys.local_changes(channel), count=1)
        if not newest:
            return frames
        async for change in self._channel.watch(channel):
            message = change.message
            word = "sign"
            if change.kind is ChangeKind.DELETED:
                texts.pop(change.message_id, None)
                word = "changed"
            elif message is not None and not message.is_bot:
                word = "asked"
            elif message is not None:
                texts[change.message_id] = message.text
                word = "posted" if change.kind is ChangeKind.POSTED else "changed"
            at_ms = int(change.cursor.partition("-")[0])
            shown = tuple(texts[key] for key in sorted(texts))
            frames.append(Frame(at_ms=at_ms, word=word, texts=shown))
            if change.cursor == newest[0][0].decode():
                break
        return frames


class DiscordTalk:
    """`Talk` over the fake Discord. Its model is the deployment's: prompts cannot choose."""

    name = "discord"

    def __init__(self, discord: FakeDiscord) -> None:
        self.discord = discord
        self._guilds: dict[int, int] = {}
        self._person = discord.world.add_user(NAME)
        self._asked: dict[int, list[float]] = {}

    async def open(self, guild: int) -> int:
        if guild not in self._guilds:
            self._guilds[guild] = self.discord.world.add_guild().id
        channel: int = self.discord.world.add_channel(self._guilds[guild]).id
        return channel

    async def say(self, channel: int, guild: int, text: str, model: str, nonce: str) -> str:
        said = await self.discord.say(channel, self._person, self.discord.mention(text))
        self._asked.setdefault(channel, []).append(said.created_s)
        return f"m{said.id}"

    async def shown(self, channel: int) -> list[str]:
        return [message.content for message in self.discord.replies(channel)]

    async def armed(self, channel: int) -> list[str] | None:
        return [
            custom_id.removeprefix("stop:")
            for message in self.discord.replies(channel)
            for row in message.components
            for part in cast("list[dict[str, Any]]", row["components"])
            if (custom_id := str(part["custom_id"])).startswith("stop:")
        ]

    async def film(self, channel: int) -> list[Frame]:
        moments = [(at_s, "asked") for at_s in self._asked.get(channel, [])]
        for call in self.discord.calls:
            if call.channel_id != channel or call.status >= 300:
                continue
            if call.path.endswith("/typing"):
                moments.append((call.ended_s, "sign"))
            elif call.method == "POST" and call.path.endswith("/messages"):
                moments.append((call.ended_s, "posted"))
        return [
            Frame(at_ms=round(at_s * 1000), word=word, texts=()) for at_s, word in sorted(moments)
        ]
