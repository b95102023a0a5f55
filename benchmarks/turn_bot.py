"""The bot that people write today, in one process: discord.py and an SDK, no queue between.

Comes in: addresses on the command line, mentions over Discord. Goes out: the reply, cut at 2,000
characters, each piece sent as soon as it is full. A program of its own, run by the Python of the
rivals' environment; it imports nothing of turnfleet.

Run: `python benchmarks/turn_bot.py openai|litellm REST_URL SOCKET_URL TOKEN PROVIDER_URL MODEL`.
"""

import sys
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any

import discord
import yarl

Deltas = Callable[[str], AsyncIterator[str]]

MESSAGE_CHARS = 2000


async def openai_deltas(provider_url: str, model: str) -> Deltas:
    """A function that streams a reply's text through the openai SDK."""
    base_url = f"{provider_url}/v1"
    client: Any = import_module("openai").AsyncOpenAI(
        api_key="rehearsal", base_url=base_url, max_retries=0
    )

    async def deltas(prompt: str) -> AsyncIterator[str]:
        messages = [{"role": "user", "content": prompt}]
        stream = await client.chat.completions.create(model=model, messages=messages, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    return deltas


async def litellm_deltas(provider_url: str, model: str) -> Deltas:
    """The same through litellm."""
    litellm = import_module("litellm")

    async def deltas(prompt: str) -> AsyncIterator[str]:
        stream = await litellm.acompletion(
            model=f"openai/{model}",
            api_base=f"{provider_url}/v1",
            api_key="rehearsal",
            messages=[{"role": "user", "content": prompt}],
            stream=True,
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    return deltas


SDKS = {"openai": openai_deltas, "litellm": litellm_deltas}


class Bot(discord.Client):
    """Answers each mention."""

    def __init__(self, sdk: str, provider_url: str, model: str) -> None:
        super().__init__(intents=discord.Intents.default())
        self._sdk, self._provider_url, self._model = sdk, provider_url, model
        self._deltas: Deltas | None = None

    async def setup_hook(self) -> None:
        """Builds the SDK's client on the bot's loop."""
        self._deltas = await SDKS[self._sdk](self._provider_url, self._model)

    async def on_message(self, message: discord.Message) -> None:
        """Streams the reply, and sends each piece that is full."""
        if message.author.bot or self.user not in message.mentions:
            return
        assert self._deltas is not None
        text = ""
        async for delta in self._deltas(message.content):
            text += delta
            while len(text) > MESSAGE_CHARS:
                await message.channel.send(text[:MESSAGE_CHARS])
                text = text[MESSAGE_CHARS:]
        if text.strip():
            await message.channel.send(text)


def main() -> None:
    """Runs until it is killed."""
    sdk, rest_url, socket_url, token, provider_url, model = sys.argv[1:]
    discord.http.Route.BASE = rest_url
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(socket_url)
    Bot(sdk, provider_url, model).run(token, log_handler=None)


if __name__ == "__main__":
    main()
