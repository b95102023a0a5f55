"""Commands, buttons and forms over real sockets: what people get, and who may what."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.asks import KeptTable
from gateway.edges.store import GatewayFleet
from ops.rehearsal.discord.asked import READS_ONLY, Asked
from ops.rehearsal.discord.faults import Fault, Stage
from shared.commands import MENU, names
from shared.failures import FaultDetails
from shared.i18n import load_texts
from shared.segments import TurnDone
from shared.thoughts import KeptThoughts
from shared.turns import CredentialSource, StopReason, TurnState
from tests.support.servers import RedisServer, running_server
from tests.support.town import FAILED, KEYS, MANAGER, MODERATOR, Town, town

TEXTS = load_texts()
CUT = TurnDone(count=-1, stop_reason=StopReason.LENGTH)
SERVER, PERSONAL, SUPPORTER = CredentialSource


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def says(key: str, locale: str = "en", **values: object) -> str:
    return TEXTS.text(key, locale, **values)


def heard(asked: Asked) -> str:
    """What the person saw: a window's text, or what was whispered; of a message for all nothing."""
    if asked.first == 4 and not asked.is_hidden:
        return ""
    if asked.form is not None:
        return str(asked.form["components"][0].get("content", ""))  # type: ignore[index]  # JSON
    return asked.texts[-1]


async def test_a_question_by_command_is_said_and_answered_as_a_reply(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        asked = await place.command("ask", question="what is\na queue?")
        assert asked.first == 4
        await place.answered("It is a line.")
        said, answer = await place.shows(place.channel, lambda shown: len(shown) == 2)
        assert said.content == "> what is\n> a queue?"
        assert (answer.content, answer.reply_to) == ("It is a line.", said.id)
        assert answer.nonce is not None


async def test_a_message_can_be_asked_about(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        message = await place.discord.say(place.channel, place.bob, "E = mc²")
        asked = await place.asks.message_command(message, place.ann, "Ask about this")
        await asked.until(lambda one: one.form is not None)
        assert asked.form is not None
        custom_id = str(asked.form["custom_id"])
        await asyncio.sleep(0.1)
        await place.submit(custom_id, question="Who found this?")
        claimed = await place.answered()
        assert b"E = mc\xc2\xb2" in claimed.request
        assert b"bob wrote" in claimed.request
        late = await place.submit("about:999", question="And this?")
        await late.until(lambda one: one.message is not None and "-#" in one.message.content)
        assert late.message is not None
        assert says("form.expired") in late.message.content


async def test_a_window_that_nobody_heard_of_has_its_message_all_the_same(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        message = await place.discord.say(place.channel, place.bob, "E = mc²")
        place.discord.faults.add(Fault(path="/callback", stage=Stage.AFTER, drop=True))
        asked = await place.asks.message_command(message, place.ann, "Ask about this")
        await asked.until(lambda one: one.form is not None)
        assert asked.form is not None
        await asyncio.sleep(0.1)
        await place.submit(str(asked.form["custom_id"]), question="Who found this?")
        claimed = await place.answered()
        assert b"E = mc\xc2\xb2" in claimed.request


async def test_nobody_writes_through_the_bot_where_they_may_only_read(server, tmp_path: Path):
    """In a channel of announcements, commands and menus are there for everybody."""
    async with town(server, tmp_path) as place:
        message = await place.discord.say(place.channel, place.bob, "We are open.")
        asked = [
            await place.command("ask", rights=READS_ONLY, question="really?"),
            await place.asks.message_command(
                message, place.ann, "Ask about this", rights=READS_ONLY
            ),
            await place.submit("about:1", rights=READS_ONLY, question="really?"),
        ]
        for one in asked:
            await one.until(lambda one: bool(one.texts))
            assert one.texts == [says("ask.forbidden")]
        assert place.discord.replies(place.channel) == []


# Rows: a member who asked, another member, a moderator, a manager, the person of a direct message.
ROLES = {
    "asker": ("ann", 0, False),
    "other": ("bob", 0, False),
    "moderator": ("bob", MODERATOR, False),
    "manager": ("bob", MANAGER, False),
    "dm": ("ann", 0, True),
}
MAY = {
    ("stop", SERVER): {"asker", "moderator", "manager", "dm"},
    ("stop", PERSONAL): {"asker", "moderator", "manager", "dm"},
    ("stop", SUPPORTER): {"asker", "moderator", "manager", "dm"},
    ("retry", SERVER): {"asker", "manager", "dm"},
    ("retry", PERSONAL): {"asker", "dm"},
    ("retry", SUPPORTER): {"asker", "manager", "dm"},
    ("continue", SERVER): {"asker", "manager", "dm"},
    ("continue", PERSONAL): {"asker", "dm"},
    ("continue", SUPPORTER): {"asker", "manager", "dm"},
    ("error", SERVER): {"manager", "dm"},
    ("error", PERSONAL): {"asker", "dm"},
    ("error", SUPPORTER): set[str](),
    ("thoughts", SERVER): set(ROLES),
    ("thoughts", PERSONAL): set(ROLES),
    ("thoughts", SUPPORTER): set(ROLES),
}
ENDS = {"stop": None, "retry": FAILED, "continue": CUT, "thoughts": TurnDone(count=-1)}
DONE = {"stop": "ask.stopped", "retry": "ask.retried", "continue": "ask.goes_on"}


async def think(
    place: Town, turn_id: str, source: CredentialSource, *, direct: bool = False
) -> None:
    """Keeps what a worker keeps of the thoughts of ann's turn."""
    kept = KeptThoughts(
        text="let me see",
        user_id=place.ann.id,
        channel_id=place.direct if direct else place.channel,
        guild_id=None if direct else place.guild.id,
        source=source,
    )
    await place.records.save_thoughts(turn_id, kept, 60)


async def pressed(place: Town, button: str, source: CredentialSource, role: str) -> str:
    """What somebody hears who presses a button of ann's turn."""
    name, rights, direct = ROLES[role]
    user = place.ann if name == "ann" else place.bob
    if button == "error":
        subject = await place.fault(source, direct=direct)
    else:
        subject = await place.turn(source, direct=direct, end=ENDS[button])
        await think(place, subject, source, direct=direct)
        if button == "continue":
            await place.cut_off(subject)
    channel = place.direct if direct else place.channel
    asked = await place.press(f"{button}:{subject}", user, rights=rights, channel=channel)
    if button == "stop" and role not in MAY["stop", source]:
        await place.queue.cancel(subject)
    while claimed := await place.queue.claim("w", 1):  # what a retry or a continuation began
        await place.queue.finish(claimed[0].token, TurnDone(count=-1))
    return heard(asked)


async def test_who_may_press_which_button(server, tmp_path: Path):
    wrong = []
    async with town(server, tmp_path) as place:
        await place.client.hset(  # type: ignore[misc]  # redis-py
            KEYS.choices, f"guild:{place.guild.id}", '{"show_thoughts":true}'
        )
        await place.client.hset(  # type: ignore[misc]  # redis-py
            KEYS.choices, f"user:{place.ann.id}", '{"show_thoughts":true}'
        )
        for (button, source), allowed in MAY.items():
            for role in ROLES:
                text = await pressed(place, button, source, role)
                done = {
                    "error": "```\nupstream said no\n```", "thoughts": "let me see"
                }.get(button) or says(DONE[button])  # fmt: skip
                refusal = "modal.forbidden" if button == "error" else "ask.forbidden"
                expected = done if role in allowed else says(refusal)
                if text != expected:
                    wrong.append((button, source.value, role, text))
    assert wrong == []


FOR_SOME: list[tuple[str, dict[str, str], int]] = [
    ("settings", {"name": "speak", "value": "always"}, MANAGER),
    ("settings", {}, MANAGER),
    ("context reset", {}, MODERATOR),
    ("stop", {"all": "true"}, MODERATOR),
    ("key set", {"provider": "openai", "scope": "server"}, MANAGER),
    ("key remove", {"provider": "openai", "scope": "server"}, MANAGER),
    ("persona", {"name": "none"}, MANAGER),
    ("persona", {"name": "none", "scope": "server"}, MANAGER),
    ("model", {"name": "default", "scope": "server"}, MANAGER),
    ("model", {"name": "default", "scope": "channel"}, MANAGER),
]
FOR_ALL: list[tuple[str, dict[str, str]]] = [
    ("stop", {}),
    ("retry", {}),
    ("continue", {}),
    ("usage", {}),
    ("model", {}),
    ("model", {"name": "default"}),
    ("persona", {}),
    ("key list", {}),
    ("key use", {"own": "on"}),
    ("key set", {"provider": "openai"}),
    ("key remove", {"provider": "openai"}),
    ("privacy forget", {}),
    ("ask", {"question": "may I?"}),
]


async def test_who_may_give_which_command(server, tmp_path: Path):
    wrong = []
    forbidden = says("ask.forbidden")
    async with town(server, tmp_path) as place:
        for command, options, needs in FOR_SOME:
            for rights in (0, MODERATOR, MANAGER):
                asked = await place.command(command, place.bob, rights=rights, options=options)
                if (heard(asked) == forbidden) == (rights in (needs, MANAGER)):
                    wrong.append((command, options, rights, heard(asked)))
        for command, options in FOR_ALL:
            for user, channel in ((place.bob, place.channel), (place.ann, place.direct)):
                asked = await place.command(command, user, channel=channel, options=options)
                if asked.first != 4 and heard(asked) == forbidden:
                    wrong.append((command, options, channel, "forbidden"))
    assert wrong == []


def test_every_command_is_in_the_table():
    given = {command for command, *_ in FOR_SOME} | {command for command, _ in FOR_ALL}
    assert given == set(names()) - {MENU}


async def test_a_forged_custom_id_gives_nothing(server, tmp_path: Path):
    wrong = []
    async with town(server, tmp_path) as place:
        for custom_id, answer in (
            ("retry:m404", "ask.gone"),
            ("stop:", "ask.is_over"),
            ("error:nothing", "modal.expired"),
            ("thoughts:m404", "ask.gone"),
            ("source:nothing", "modal.expired"),
            ("explode:m1", "ask.unknown"),
            ("", "ask.unknown"),
            (":" * 99, "ask.unknown"),
            ("key:server:openai:1", "ask.unknown"),
        ):
            asked = await place.press(custom_id, place.bob, rights=MANAGER)
            if asked.texts != [says(answer)]:
                wrong.append((custom_id, asked.texts))
    assert wrong == []


async def test_the_ids_of_another_server_give_nothing(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        turn_id = await place.turn(end=FAILED)
        report_id = await place.fault(SERVER)
        other = place.discord.world.add_channel(place.discord.world.add_guild().id).id
        for custom_id, answer in (
            (f"retry:{turn_id}", "ask.gone"), (f"error:{report_id}", "modal.forbidden")
        ):  # fmt: skip
            asked = await place.press(custom_id, place.bob, rights=MANAGER, channel=other)
            assert asked.texts == [says(answer)]
        # Nor do those of a server in somebody's direct messages, where everybody is a manager.
        theirs = place.discord.world.direct_channel(place.bob.id).id
        asked = await place.press(f"error:{report_id}", place.bob, channel=theirs)
        assert asked.texts == [says("modal.forbidden")]


async def test_the_source_of_a_table_is_shown_in_its_channel_alone(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        table = KeptTable(
            text="| a |", channel_id=place.channel, user_id=place.ann.id, guild_id=place.guild.id
        )
        await GatewayFleet(place.queue).keep_source("t1", table)
        await place.client.set(KEYS.table_source("t2"), "| of an older version |")
        other = place.discord.world.add_channel(place.guild.id).id
        shown = await place.press("source:t1", place.bob)
        assert shown.texts == ["```\n| a |\n```"]
        for custom_id, channel in (("source:t1", other), ("source:t2", place.channel)):
            asked = await place.press(custom_id, place.ann, rights=MANAGER, channel=channel)
            assert asked.texts == [says("modal.expired")]
        for size in (1_980, 1_995, 9_000):
            long = msgspec.structs.replace(table, text="| a |\n|---|\n".ljust(size, "x"))
            await GatewayFleet(place.queue).keep_source("t1", long)
            (said,) = (await place.press("source:t1", place.bob)).said
            if size < 1_990:
                assert said["content"] == f"```\n{long.text}\n```"
            else:  # with its fences it is no message, and cut it would be of no use
                assert (said["_files"], said["_contents"]) == (["table.md"], [long.text.encode()])


async def test_thoughts_outlive_the_record_of_their_turn_but_not_their_person(
    server, tmp_path: Path
):
    async with town(server, tmp_path) as place:
        owner = f"guild:{place.guild.id}"
        await place.client.hset(KEYS.choices, owner, '{"show_thoughts":true}')  # type: ignore[misc]  # redis-py
        turn_id = await place.turn(end=TurnDone(count=-1))
        await think(place, turn_id, SERVER)
        await place.client.delete(KEYS.turn(turn_id))
        custom_id = f"thoughts:{turn_id}"
        assert (await place.press(custom_id, place.bob)).texts == ["let me see"]
        other = place.discord.world.add_channel(place.guild.id).id
        assert (await place.press(custom_id, channel=other)).texts == [says("ask.gone")]
        await place.command("privacy forget")
        assert (await place.press(custom_id, place.bob)).texts == [says("ask.gone")]


async def test_two_clicks_try_again_once(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        turn_id = await place.turn(end=FAILED)
        clicks = await asyncio.gather(*(place.press(f"retry:{turn_id}") for _ in range(4)))
        heard_all = sorted(asked.texts[0] for asked in clicks)
        assert heard_all.count(says("ask.retried")) == 1
        assert heard_all.count(says("ask.retried_already")) == 3
        claimed = await place.answered("now it works")
        assert claimed.token.turn_id == f"{turn_id}.2"
        assert await place.queue.claim("w", 1) == []
        again = await place.press(f"retry:{turn_id}.2")
        assert again.texts == [says("ask.nothing_failed")]


async def test_everything_is_acknowledged_in_time_while_redis_does_not_answer(server, tmp_path):
    async with town(server, tmp_path) as place:
        report_id = await place.fault(SERVER)
        await place.message(place.channel)
        await place.client.execute_command("CLIENT", "PAUSE", 4_000, "ALL")  # type: ignore[no-untyped-call]  # redis-py
        asked = await asyncio.gather(
            place.command("retry"),
            place.command("ask", question="hello?"),
            place.command("key set", provider="openai"),
            place.command("usage"),
            place.command("privacy forget"),
            place.press(f"error:{report_id}", rights=MANAGER),
            place.press("stop:m1"),
        )
        for one in asked:
            assert one.answered_s is not None
            assert one.answered_s - one.at_s < 3.0
        assert asked[5].texts == ["```\nupstream said no\n```"]  # no window any more, but the text


async def test_a_token_that_died_is_left_alone(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        turn_id = await place.turn(end=FAILED)
        asked = await place.asks.press(
            await place.message(place.channel), place.ann, f"retry:{turn_id}"
        )
        asked.at_s -= 16 * 60  # Discord's clock: it came to us a quarter of an hour late
        await place.answered("still answered")
        assert asked.first is None
        assert asked.said == []


async def test_details_that_expired_say_so_in_the_persons_language(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        for locale in ("ja", "zh-CN", "de"):
            asked = await place.press("error:gone", locale=locale)
            assert asked.texts == [says("modal.expired", locale)]


async def test_stop_ends_what_waits_and_what_runs(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        running, waiting = await place.turn(), await place.turn()
        (claimed,) = await place.queue.claim("w", 1)
        assert claimed.token.turn_id == running
        asked = await place.command("stop", place.bob)
        assert asked.texts == [says("ask.nothing_runs")]
        asked = await place.command("stop")
        assert asked.texts == [says("ask.stopped")]
        record = await place.records.turn(running)
        assert record is not None
        assert record.is_stopping
        assert await place.records.state(waiting) is TurnState.CANCELLED


async def test_a_long_error_and_its_markup_fit_into_a_window(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        nasty = "``` @everyone [x](https://evil.example) " * 60
        await place.records.save_details(
            "r1", FaultDetails(snippet=nasty[:2000], user_id=place.ann.id, guild_id=place.guild.id)
        )
        asked = await place.press("error:r1", rights=MANAGER)
        text = heard(asked)
        assert text.startswith("```\n")
        assert text.count("```") == 2
        assert len(text) <= 2000
