"""What people choose by command, and what holds from the next prompt on."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared.i18n import load_texts
from shared.sealed import CredentialRef
from shared.turns import CredentialSource, Target
from shared.wire import decode_turn_request
from tests.support.servers import RedisServer, running_server
from tests.support.town import KEYS, MANAGER, MODERATOR, Town, town

TEXTS = load_texts()
FILE = """
[models.fast]
provider = "openai"
model = "gpt-fast"
price = { input = 1.0, output = 2.0 }

[models.careful]
provider = "anthropic"
model = "claude-careful"
price = { input = 3.0, output = 15.0 }

[routes.usual]
models = ["careful", "fast"]

[personas.owl]
name = "Owl"
system = "You are an owl."

[[budgets]]
scope = "user"
period = "month"
cost = 2.0

[[budgets]]
scope = "guild"
period = "day"
tokens = 50000
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def says(key: str, **values: object) -> str:
    return TEXTS.text(key, **values)


async def heard(place: Town, command: str, *, rights: int = 0, **options: str) -> str:
    return (await place.command(command, rights=rights, options=options)).texts[-1]


async def answering(place: Town, user: str = "ann") -> tuple[Target, str | None]:
    """Who answers the next prompt, and as whom."""
    await place.command("ask", place.ann if user == "ann" else place.bob, question="who?")
    request = decode_turn_request((await place.answered()).request)
    return request.target, request.persona


async def test_what_is_chosen_holds_from_the_next_prompt_on(server, tmp_path: Path):
    async with town(server, tmp_path, file=FILE) as place:
        assert "`usual`, `fast`, `careful`" in await heard(place, "model")
        unknown = await heard(place, "model", name="nonsense", scope="server", rights=MANAGER)
        assert unknown == says("ask.unknown_name", names="`usual`, `fast`, `careful`")
        dear = {"name": "openai/gpt-dear", "scope": "server"}
        assert await heard(place, "model", rights=MANAGER, **dear) == says(
            "ask.needs_server_key", provider="openai"
        )
        direct = await place.command("model", channel=place.direct, name="openai/gpt-dear")
        assert direct.texts == [says("ask.needs_own_key", provider="openai")]
        await heard(place, "model", name="usual", scope="server", rights=MANAGER)
        assert (await answering(place))[0].model == "claude-careful"

        # A model of one's own runs on a key of one's own.
        assert await heard(place, "model", name="fast") == says(
            "ask.needs_own_key", provider="openai"
        )
        asked = await place.command("key set", provider="openai")
        assert asked.form is not None
        await place.submit(str(asked.form["custom_id"]), key="sk-" + "x" * 30, endpoint="")
        assert await heard(place, "model", name="fast") == says("ask.model_chosen", name="fast")
        assert (await answering(place))[0].model == "gpt-fast"
        assert (await answering(place, "bob"))[0].model == "claude-careful"
        await heard(place, "key use", own="off")
        assert (await answering(place))[0].model == "claude-careful"
        await heard(place, "key use", own="on")
        assert (await answering(place))[0].model == "claude-careful"
        await heard(place, "model", name="openai/gpt-unnamed")
        assert (await answering(place))[0].model == "gpt-unnamed"
        assert await heard(place, "model", name="default") == says("ask.model_default")
        assert (await answering(place))[0].model == "claude-careful"

        assert "`owl`" in await heard(place, "persona")
        await heard(place, "persona", name="owl", rights=MANAGER)
        assert (await answering(place, "bob"))[1] == "owl"
        await heard(place, "persona", name="default", rights=MANAGER)
        assert (await answering(place, "bob"))[1] is None


async def brings_key(place: Town, *, rights: int = 0, scope: str = "me") -> None:
    asked = await place.command("key set", rights=rights, provider="openai", scope=scope)
    assert asked.form is not None
    custom_id = str(asked.form["custom_id"])
    await place.submit(custom_id, rights=rights, key="sk-" + "x" * 30, endpoint="")


async def test_nobody_chooses_a_model_for_a_key_that_is_left_unused(server, tmp_path: Path):
    async with town(server, tmp_path, file=FILE) as place:
        await brings_key(place)
        await heard(place, "key use", own="off")
        needs = says("ask.needs_own_key", provider="openai")
        assert await heard(place, "model", name="openai/gpt-dear") == needs
        await heard(place, "key use", own="on")
        chosen = says("ask.model_chosen", name="openai/gpt-dear")
        assert await heard(place, "model", name="openai/gpt-dear") == chosen


async def test_the_servers_own_model_goes_with_its_key(server, tmp_path: Path):
    """Else the deployment would pay for a model that its file does not have."""
    async with town(server, tmp_path, file=FILE) as place:
        for scope, name in (("server", "openai/gpt-dear"), ("channel", "openai/gpt-dear")):
            await brings_key(place, rights=MANAGER, scope="server")
            await heard(place, "model", name="usual", scope="server", rights=MANAGER)
            await heard(place, "model", name=name, scope=scope, rights=MANAGER)
            assert (await answering(place))[0].model == "gpt-dear", scope
            await heard(place, "key remove", provider="openai", scope="server", rights=MANAGER)
            assert (await answering(place))[0].model != "gpt-dear", scope
        await brings_key(place, rights=MANAGER, scope="server")
        await heard(place, "model", name="fast", scope="server", rights=MANAGER)
        await heard(place, "key remove", provider="openai", scope="server", rights=MANAGER)
        assert (await answering(place))[0].model == "gpt-fast"


@pytest.mark.parametrize("by", ["command", "operator"])
async def test_a_model_chosen_in_another_channel_goes_with_its_key(server, tmp_path: Path, by: str):
    """Wherever it was chosen: without the key nothing of it is asked on the deployment's."""
    async with town(server, tmp_path, file=FILE) as place:
        other = place.discord.world.add_channel(place.guild.id).id
        await brings_key(place, rights=MANAGER, scope="server")
        dear = {"name": "openai/gpt-dear", "scope": "channel"}
        await place.command("model", rights=MANAGER, channel=other, options=dear)

        async def answers_there() -> Target:
            await place.command("ask", channel=other, question="who?")
            return decode_turn_request((await place.answered()).request).target

        assert (await answers_there()).model == "gpt-dear"
        if by == "command":
            await heard(place, "key remove", provider="openai", scope="server", rights=MANAGER)
        else:
            ref = CredentialRef(
                scope=CredentialSource.SERVER, owner_id=place.guild.id, provider="openai"
            )
            assert await place.store.revoke(ref, actor="operator", now_ms=1)
        assert (await answers_there()).model != "gpt-dear"
        await brings_key(place, rights=MANAGER, scope="server")
        assert (await answers_there()).model == "gpt-dear"


async def test_settings_are_for_places_not_for_people(server, tmp_path: Path):
    """A person's would hold in every server: thoughts shown, and each message answered."""
    async with town(server, tmp_path, file=FILE) as place:
        for channel, options in ((place.direct, {}), (None, {"scope": "me"})):
            asked = await place.command(
                "settings",
                channel=channel,
                rights=MANAGER,
                options={"name": "show_thoughts", "value": "true", **options},
            )
            assert asked.texts == [says("ask.forbidden")]
        assert not await place.client.hexists(KEYS.choices, f"user:{place.ann.id}")  # type: ignore[misc]  # redis-py


SETTINGS = [
    ("speak", "always", "ask.setting_kept"),
    ("speak", "sometimes", "ask.bad_value"),
    ("show_thoughts", "true", "ask.setting_kept"),
    ("details_hours", "1000", "ask.bad_value"),
    ("details_hours", "2", "ask.setting_kept"),
    ("history_messages", "many", "ask.bad_value"),
    ("locale", "ja", "ask.setting_kept"),
    ("instructions", "Be brief.", "ask.setting_kept"),
    ("speak", "default", "ask.setting_kept"),
]


async def test_a_setting_takes_what_it_may_have(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        for name, value, key in SETTINGS:
            said = await heard(place, "settings", name=name, value=value, rights=MANAGER)
            assert said == says(key, name=name), value
        kept = await place.client.hget(KEYS.choices, f"guild:{place.guild.id}")  # type: ignore[misc]  # redis-py
        assert msgspec.json.decode(kept or b"{}") == {
            "show_thoughts": True, "details_hours": 2.0, "locale": "ja", "instructions": "Be brief."
        }  # fmt: skip


async def test_settings_are_told_and_budgets_too(server, tmp_path: Path):
    async with town(server, tmp_path, file=FILE) as place:
        await heard(place, "settings", name="locale", value="ja", rights=MANAGER)
        told = await heard(place, "settings", rights=MANAGER)
        assert "`locale` = ja" in told
        assert "`speak` = default" in told
        mine = await heard(place, "usage")
        assert mine.startswith("You, ")
        assert "0.00 / 2.00 (0 %)" in mine
        both = await heard(place, "usage", rights=MANAGER)
        assert both.count("\n") == 1
        assert "0 / 50,000 tokens" in both


async def test_a_fresh_conversation_begins_at_the_command(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        asked = await place.command("context reset", rights=MODERATOR)
        assert asked.texts == [says("ask.fresh")]
        start = await place.client.get(KEYS.context_start(place.channel))
        assert int(start or 0) == asked.id


async def test_a_failure_in_a_channel_has_buttons_that_work(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        await place.command("ask", question="will it work?")
        claimed = await place.claim()
        await place.fail(claimed, "upstream said no")
        *_, notice = await place.shows(place.channel, lambda shown: bool(shown[-1].components))
        (row,) = notice.components
        buttons = [(part["label"], part["custom_id"]) for part in row["components"]]  # type: ignore[attr-defined]  # JSON
        assert [label for label, _ in buttons] == ["Retry", "Show full error"]
        opened = await place.press(buttons[1][1], place.bob, rights=MANAGER)
        assert opened.form is not None
        await place.press(buttons[0][1])
        await place.answered("now it works")
        shown = await place.shows(place.channel, lambda found: found[-1].content == "now it works")
        assert shown[-1].reply_to == shown[0].id
