"""Stop below a running reply, over real sockets: a whole gateway, Redis, the fake Discord."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ops.rehearsal.discord.asked import Asked
from ops.rehearsal.discord.interaction_rules import DEFER_UPDATE, SAY, UPDATE
from ops.rehearsal.discord.payloads import Json
from ops.rehearsal.discord.world import Message
from shared.edges.queue import Claimed
from shared.i18n import load_texts
from shared.segments import TurnDone
from shared.turns import Speaker, TurnState
from tests.support.gateway import segment_of
from tests.support.servers import RedisServer, running_server
from tests.support.town import KEYS, MANAGER, MODERATOR, Town, town

TEXTS = load_texts()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def says(key: str) -> str:
    return TEXTS.text(key, "en")


def buttons(message: Message) -> list[str]:
    rows: list[Json] = list(message.components)
    return [str(part["custom_id"]) for row in rows for part in row["components"]]  # type: ignore[attr-defined]  # JSON


async def begun(place: Town, words: str = "a", speaker: Speaker | None = None) -> Claimed:
    """A reply of ann's that shows its first message and runs on."""
    before = len(place.discord.world.shown(place.channel))
    await place.turn(speaker=speaker)
    claimed = await place.claim()
    await place.queue.append(claimed.token, 1, segment_of(claimed.token, 1, words))
    async with asyncio.timeout(20):
        while len(place.discord.world.shown(place.channel)) == before:
            await asyncio.sleep(0.01)
    return claimed


async def press(place: Town, custom_id: str, message: Message, rights: int = 0, by=None) -> Asked:
    asked = await place.asks.press(message, by or place.ann, custom_id, rights=rights)
    await asked.until(lambda one: bool(one.said))
    return asked


async def gone(place: Town, message: Message) -> Message:
    """The message, once nothing can be pressed below it."""
    async with asyncio.timeout(20):
        while buttons(now := place.discord.world.messages[place.channel][message.id]):
            await asyncio.sleep(0.01)
    return now


def edits(place: Town) -> int:
    return sum(call.method == "PATCH" for call in place.discord.calls)


async def test_stop_is_there_while_the_reply_runs_and_gone_with_its_end(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        claimed = await begun(place)
        (message,) = place.discord.replies(place.channel)
        assert buttons(message) == [f"stop:{claimed.token.turn_id}"]
        assert message.components[0]["components"][0]["label"] == says("button.stop")  # type: ignore[index]  # JSON
        await place.queue.append(claimed.token, 2, segment_of(claimed.token, 2, "b"))
        await place.queue.finish(claimed.token, TurnDone(count=2))
        await gone(place, message)
        first, second = await place.shows(place.channel, lambda shown: len(shown) == 2)
        assert (first.content, second.content) == ("a", "b")
        assert edits(place) == 1
        (edit,) = [call for call in place.discord.calls if call.method == "PATCH"]
        assert edit.body is not None
        assert not {"content", "attachments", "embeds"} & edit.body.keys()
        assert edit.body["components"] in (None, [])
        assert (edit.body["allowed_mentions"].get("parse") or []) == []
        async with asyncio.timeout(5):
            while await place.client.hlen(KEYS.armed(KEYS.partition_of(place.channel))):  # type: ignore[misc]  # redis-py
                await asyncio.sleep(0.01)


async def test_a_click_stops_the_reply_and_takes_the_button_by_its_answer(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        claimed = await begun(place)
        (message,) = place.discord.replies(place.channel)
        asked = await press(place, buttons(message)[0], message)
        assert (asked.first, asked.texts) == (UPDATE, [says("ask.stopped")])
        assert asked.said[-1]["flags"] == 64
        assert buttons(await gone(place, message)) == []
        assert edits(place) == 0  # the answer to the press is no request of the bot
        record = await place.records.turn(claimed.token.turn_id)
        assert record is not None
        assert record.is_stopping


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["ended", "long ago"])
async def test_one_that_was_left_over_says_so_and_goes(server, tmp_path: Path, is_forgotten):
    async with town(server, tmp_path) as place:
        claimed = await begun(place)
        (message,) = place.discord.replies(place.channel)
        await place.queue.finish(claimed.token, TurnDone(count=1))
        await gone(place, message)
        stale = place.discord.world.edit(
            place.discord.bot.id, place.channel, message.id, None, components=message.components
        )
        if is_forgotten:
            await place.client.delete(KEYS.turn(claimed.token.turn_id))
        # Whoever presses it: there is nothing to be allowed any more.
        asked = await press(place, buttons(stale)[0], stale, by=place.bob)
        assert (asked.first, asked.texts) == (UPDATE, [says("ask.is_over")])
        assert (await gone(place, message)).content == "a"


async def test_who_may_not_stop_hears_so_and_the_button_stays(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        claimed = await begun(place)
        (message,) = place.discord.replies(place.channel)
        custom_id = f"stop:{claimed.token.turn_id}"
        asked = await press(place, custom_id, message, by=place.bob)
        assert (asked.first, asked.texts) == (SAY, [says("ask.forbidden")])
        assert asked.is_hidden
        assert buttons(place.discord.replies(place.channel)[0]) == [custom_id]
        asked = await press(place, custom_id, message, rights=MODERATOR, by=place.bob)
        assert asked.texts == [says("ask.stopped")]


async def test_forged_ids_stop_nothing_and_take_nothing(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        claimed = await begun(place)
        (message,) = place.discord.replies(place.channel)
        other = place.discord.world.add_channel(place.guild.id).id
        elsewhere = await place.discord.say(other, place.bob, "hello")
        for custom_id, where, answer in (
            ("stop:m404", message, "ask.is_over"),
            ("stop:", message, "ask.is_over"),
            (f"stop:{claimed.token.turn_id}", elsewhere, "ask.gone"),
        ):
            asked = await press(place, custom_id, where, rights=MANAGER, by=place.bob)
            assert asked.texts == [says(answer)]
        assert buttons(place.discord.replies(place.channel)[0]) == buttons(message)
        record = await place.records.turn(claimed.token.turn_id)
        assert record is not None
        assert not record.is_stopping


async def test_two_clicks_at_once_are_both_answered(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        await begun(place)
        (message,) = place.discord.replies(place.channel)
        clicks = await asyncio.gather(
            *(press(place, buttons(message)[0], message) for _ in range(3))
        )
        assert {text for asked in clicks for text in asked.texts} == {says("ask.stopped")}
        assert buttons(await gone(place, message)) == []


async def test_a_press_is_acknowledged_in_time_while_redis_does_not_answer(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        await begun(place)
        (message,) = place.discord.replies(place.channel)
        await place.client.execute_command("CLIENT", "PAUSE", 4_000, "ALL")  # type: ignore[no-untyped-call]  # redis-py
        asked = await press(place, buttons(message)[0], message)
        assert asked.first == DEFER_UPDATE
        assert asked.answered_s is not None
        assert asked.answered_s - asked.at_s < 3.0
        assert asked.texts == [says("ask.stopped")]
        assert buttons(await gone(place, message)) == []


async def test_a_persona_carries_it_and_loses_it_through_its_webhook(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        claimed = await begun(place, speaker=Speaker(name="Ada"))
        message = place.discord.world.shown(place.channel)[-1]
        assert message.shown_name == "Ada"
        assert buttons(message) == [f"stop:{claimed.token.turn_id}"]
        await place.queue.finish(claimed.token, TurnDone(count=1))
        assert (await gone(place, message)).content == "a"
        assert edits(place) == 1
        claimed = await begun(place, speaker=Speaker(name="Ada"))
        message = place.discord.world.shown(place.channel)[-1]
        asked = await press(place, f"stop:{claimed.token.turn_id}", message)
        assert (asked.first, asked.texts) == (UPDATE, [says("ask.stopped")])
        assert (await gone(place, message)).content == "a"


async def test_switched_off_no_reply_has_one(server, tmp_path: Path):
    async with town(server, tmp_path, stop_button="false") as place:
        await begun(place)
        assert buttons(place.discord.replies(place.channel)[0]) == []


async def test_a_waiting_turn_is_stopped_by_the_same_press(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        running = await begun(place)
        waiting = await place.turn()
        (message,) = place.discord.replies(place.channel)
        place.discord.world.edit(
            place.discord.bot.id,
            place.channel,
            message.id,
            None,
            components=msgspec.json.decode(
                msgspec.json.encode(message.components).replace(
                    running.token.turn_id.encode(), waiting.encode()
                ),
                type=tuple[dict[str, object], ...],
            ),
        )
        asked = await press(place, f"stop:{waiting}", message)
        assert asked.texts == [says("ask.stopped")]
        assert await place.records.state(waiting) is TurnState.CANCELLED
