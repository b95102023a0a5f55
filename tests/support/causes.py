"""Each cause of the taxonomy, brought about in a whole house, and mended.

Comes in: a house, its provider, the ways to talk to it. Goes out: a failed turn for each cause, in
a guild of its own. What a provider says is the table of `test_cause_sequences`; what the fleet, the
accounts and the endpoint guard find is played here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from shared.causes import Cause
from shared.turns import Target, TurnState
from tests.acceptance.test_cause_sequences import TABLE
from tests.support.cli import Command
from tests.support.doorman import WHOLE, Doorman, Drip, delta, event, stream
from tests.support.house import House

LIMIT_S: Final = 180.0
FIRST_GUILD: Final = 5_000
PRIVATE: Final = "https://10.0.0.1/v1"
VENDORS: Final = {"rehearsal": "openai"}
"""Who stands in for whom: the house has a rehearsal provider of its own."""
_BUDGET: Final = """
[[budgets]]
scope = "guild"
id = "{guild}"
period = "day"
cost = 0
"""
_PAID: Final = """
[models.paid]
provider = "openai"
model = "{model}"
needs_subscription = {needed}
price = {{ input = 1.0, output = 1.0 }}
"""


class Stage(msgspec.Struct, frozen=True):
    """Where causes are played. Nobody listens on `free_port` until somebody does."""

    home: House
    man: Doorman
    command: Command
    file: Path
    free_port: int

    async def run(self, *words: str, stdin: str | None = None) -> None:
        """Runs a command that succeeds."""
        done = await asyncio.to_thread(self.command, *words, stdin=stdin)
        assert done.exit_code == 0, done.stderr

    async def ask(self, cause: Cause, provider: str = "openai") -> str:
        """Posts a prompt into the guild of a cause; gives the id of its turn."""
        guild = guild_of(cause)
        target = Target(provider=provider, model=cause)
        number = await self.home.channel.say(guild, "hello?", guild_id=guild, target=target)
        return f"l{number}"


Play = Callable[[Stage, Cause], Awaitable[str]]


def guild_of(cause: Cause) -> int:
    """The guild, and the channel, in which a cause is played."""
    return FIRST_GUILD + list(Cause).index(cause)


async def said_by_the_provider(stage: Stage, cause: Cause) -> str:
    """The provider answers with it."""
    course = TABLE[cause]
    provider = VENDORS.get(course.provider, course.provider)
    stage.man.answers[provider, cause] = [course.answer]
    return await stage.ask(cause, provider)


async def found_by_the_accounts(stage: Stage, cause: Cause) -> str:
    """The configuration file says so: see `configuration`."""
    return await stage.ask(cause)


async def nobody_listens(stage: Stage, cause: Cause) -> str:
    """The provider's address has no server."""
    return await stage.ask(cause, "deepseek")


async def led_inside(stage: Stage, cause: Cause) -> str:
    """The guild's own key names an address within our network."""
    await _bring_key(stage, cause, PRIVATE)
    return await stage.ask(cause)


async def has_no_job(stage: Stage, cause: Cause) -> str:
    """The turn loses its job while it waits, as by a bug of ours."""
    pause = f"guild:{guild_of(cause)}"
    await stage.home.queue.pause(pause)
    turn_id = await stage.ask(cause)
    await until(lambda: _is_queued(stage.home, turn_id))
    await stage.home.redis.delete(stage.home.keys.job(turn_id))
    await stage.home.queue.resume(pause)
    return turn_id


async def loses_its_worker(stage: Stage, cause: Cause) -> str:
    """A worker dies in the middle of a reply, where the policy is to say so."""
    beginning = delta(content="The beginning.\n\nAnd then")
    stage.man.answers["openai", cause] = [stream(beginning, Drip(delta(content=" more"), 0.2))]
    turn_id = await stage.ask(cause)
    await until(lambda: _is_shown(stage.home, cause))
    (worker,) = stage.home.workers
    worker.kill()
    worker.start()
    return turn_id


BROUGHT_BY: Final[dict[Cause, Play]] = {
    # The first one kills a worker, which the others would feel.
    Cause.WORKER_LOST: loses_its_worker,
    **{cause: said_by_the_provider for cause, course in TABLE.items() if course.answer},
    Cause.QUOTA_EXHAUSTED: found_by_the_accounts,
    Cause.SUBSCRIPTION_REQUIRED: found_by_the_accounts,
    Cause.CONNECTION_REFUSED: nobody_listens,
    Cause.ENDPOINT_NOT_ALLOWED: led_inside,
    Cause.INTERNAL_ERROR: has_no_job,
}
"""Every cause, and how it comes about. A cause without a row is a failure that nobody tried."""


def configuration(*, mended: bool) -> str:
    """The file in which a guild has nothing to spend, and a model is for subscribers."""
    budget = "" if mended else _BUDGET.format(guild=guild_of(Cause.QUOTA_EXHAUSTED))
    needed = str(not mended).lower()
    return budget + _PAID.format(model=Cause.SUBSCRIPTION_REQUIRED, needed=needed)


async def fail_all(stage: Stage) -> dict[Cause, str]:
    """Plays every cause. Gives the failed turns."""
    turns = {}
    for cause, play in BROUGHT_BY.items():
        turns[cause] = turn_id = await play(stage, cause)
        if cause is Cause.WORKER_LOST:
            await until(lambda: _has_failed(stage.home, turn_id))  # noqa: B023 - awaited here
    for turn_id in turns.values():
        await until(lambda: _has_failed(stage.home, turn_id))  # noqa: B023 - awaited here
    return turns


async def mend(stage: Stage) -> asyncio.Server:
    """From now on everybody answers, each in the words of its format. Gives what must be closed."""
    man = stage.man
    man.answers.clear()
    blocks: tuple[dict[str, object], ...] = (
        {"type": "message_start", "message": {"id": "a", "model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WHOLE}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    )
    man.answers["anthropic", Cause.MESSAGE_SEQUENCE] = [stream(*map(event, blocks))]
    parts = {"content": {"parts": [{"text": WHOLE}]}, "finishReason": "STOP"}
    man.answers["google", "other"] = [stream(event({"candidates": [parts]}))]
    await _bring_key(stage, Cause.ENDPOINT_NOT_ALLOWED, man.url("openai"))
    stage.file.write_text(configuration(mended=True), encoding="utf-8")
    before = {one.config_digest for one in await _followers(stage.home)}
    await stage.run("config", "reload")
    await until(lambda: _all_run_another(stage.home, before))
    return await asyncio.start_server(man.serve, "127.0.0.1", stage.free_port)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits until it is so."""
    async with asyncio.timeout(LIMIT_S):
        while not await is_so():
            await asyncio.sleep(0.1)


async def _bring_key(stage: Stage, cause: Cause, endpoint: str) -> None:
    owner = str(guild_of(cause))
    words = ("creds", "add", "openai", "--owner", owner, "--endpoint", endpoint)
    await stage.run(*words, stdin="key-of-the-guild\n")


async def _is_queued(home: House, turn_id: str) -> bool:
    return await home.records.state(turn_id) is TurnState.QUEUED


async def _has_failed(home: House, turn_id: str) -> bool:
    return await home.records.state(turn_id) in {TurnState.FAILED, TurnState.DEAD}


async def _is_shown(home: House, cause: Cause) -> bool:
    messages = await home.channel.messages(guild_of(cause))
    return any(one.is_bot and "beginning" in one.text for one in messages)


async def _followers(home: House) -> list[Any]:
    return [one for one in await home.records.processes() if one.role in {"gateway", "worker"}]


async def _all_run_another(home: House, before: set[Any]) -> bool:
    return not before & {one.config_digest for one in await _followers(home)}
