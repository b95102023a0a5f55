"""What holds for a prompt: layers, routes, canaries, personas, and who may talk to the bot."""

import msgspec
import pytest

from shared.configuration.choices import (
    Access,
    Choices,
    Denial,
    Place,
    Speak,
    denial,
    merged,
)
from shared.configuration.schema import Configuration
from shared.configuration.settling import (
    Basis,
    entry_of,
    is_canary,
    settle,
    target_named,
    unknown_names,
)
from shared.history import Context
from shared.segments import DeliveryMode
from shared.turns import FollowUp, Lanes, Target
from tests.support.configurations import configuration_of as the_file

BASIS = Basis(target=Target(provider="rehearsal", model="plain"))


def test_without_a_file_the_deployment_decides():
    found = settle(Configuration(), BASIS, [])
    assert found.target == BASIS.target
    assert (found.fallbacks, found.system, found.persona) == ((), None, None)
    assert (found.follow_up, found.lane, found.speak) == (
        FollowUp.QUEUE,
        None,
        Speak.MENTION,
    )


def test_defaults_and_persona_of_the_file():
    found = settle(the_file(), BASIS, [])
    assert found.persona_id == "ada"
    assert found.target.model == "llama"  # the persona's own model, before the default route
    assert found.system == "You are Ada.\nYou answer briefly."
    assert found.delivery_mode is DeliveryMode.LINE
    assert found.locale == "en-GB"
    assert found.follow_up is FollowUp.MERGE
    assert found.history_messages == 40
    assert found.access == (
        Access(allow_guilds=(80351110224678912,)),
        Access(deny_users=(42,)),
    )


LAYERS = {
    "a guild's persona": ([Choices(persona="none")], "claude-next", None),
    "a guild's route": ([Choices(model="main")], "claude-next", "ada"),
    "a channel wins over its guild": (
        [Choices(model="main"), Choices(model="small")],
        "llama",
        "ada",
    ),
    "a model by provider": ([Choices(model="openai/gpt-x")], "gpt-x", "ada"),
    "a model that is gone": ([Choices(model="old")], "llama", "ada"),
    "a persona that is gone": ([Choices(persona="eve")], "llama", "ada"),
}


@pytest.mark.parametrize(("layers", "model", "persona"), LAYERS.values(), ids=LAYERS.keys())
def test_a_later_layer_wins(layers: list[Choices], model: str, persona: str | None):
    configuration = the_file()
    route = configuration.routes["main"]
    no_canary = msgspec.structs.replace(route, canary=None)
    configuration = msgspec.structs.replace(configuration, routes={"main": no_canary})
    found = settle(configuration, BASIS, layers, "m1")
    assert (found.target.model, found.persona_id) == (model, persona)


def test_the_environments_model_wins_over_the_files_default_but_not_over_a_guilds():
    forced = msgspec.structs.replace(BASIS, is_target_forced=True)
    configuration = msgspec.structs.replace(the_file(), personas={}, defaults=Choices(model="main"))
    assert settle(configuration, forced, []).target == BASIS.target
    assert settle(configuration, forced, [Choices(model="small")]).target.model == "llama"


def test_instructions_add_up():
    layers = [Choices(instructions="Be kind."), Choices(instructions="Speak French.")]
    found = settle(Configuration(), BASIS, layers)
    assert found.system == "Be kind.\n\nSpeak French."


def test_every_choice_reaches_what_holds():
    chosen = Choices(
        locale="de",
        delivery_mode=DeliveryMode.SENTENCE,
        follow_up=FollowUp.REPLACE,
        lane=Lanes.THREAD,
        speak=Speak.ALWAYS,
        tools=(),
        context=Context.REPLIES,
        history_messages=0,
        details_hours=0.0,
        show_thoughts=True,
        subscribed=True,
    )
    found = settle(the_file(), BASIS, [chosen])
    for name in Choices.__struct_fields__:
        if (value := getattr(chosen, name)) is not None:
            assert getattr(found, name) == value, name


def test_a_route_is_a_chain_and_its_canary_comes_before_it():
    configuration = the_file()
    layers = [Choices(model="main")]
    turns = [f"m{number}" for number in range(4_000)]
    first = [settle(configuration, BASIS, layers, turn) for turn in turns]
    canaries = [one for one in first if one.target.model == "llama"]
    assert 0.03 < len(canaries) / len(first) < 0.07
    assert [one.model for one in canaries[0].fallbacks] == ["claude-next", "llama"]
    others = next(one for one in first if one.target.model == "claude-next")
    assert [one.model for one in others.fallbacks] == ["llama"]
    assert others.sampling.max_tokens == 4096


def test_a_replay_lands_on_the_side_of_its_original():
    turns = [f"m{number}" for number in range(100)]
    assert [is_canary(0.5, one) for one in turns] == [is_canary(0.5, f"{one}.2") for one in turns]


def test_names_behind_which_nothing_stands():
    configuration = the_file()
    assert target_named(configuration, "main") == Target(provider="anthropic", model="claude-next")
    assert target_named(configuration, "nothing") is None
    assert unknown_names(configuration, Choices(model="x", persona="y")) == [
        'model "x"',
        'persona "y"',
    ]
    assert unknown_names(configuration, Choices(model="small", persona="none")) == []


def test_what_the_file_says_of_a_target():
    entry = entry_of(the_file(), Target(provider="anthropic", model="claude-next"))
    assert entry is not None
    assert entry.price is not None
    assert entry_of(the_file(), Target(provider="x", model="claude-next")) is None


def test_layers_merge_to_one_that_says_nothing_of_what_nobody_said():
    assert merged([Choices(), Choices()]) == Choices()


GUILD = Place(channel_id=5, user_id=9, guild_id=1, roles=(70, 71))
THREAD = msgspec.structs.replace(GUILD, channel_id=6, parent_id=5)
DIRECT = Place(channel_id=8, user_id=9)
ACCESS: dict[str, tuple[list[Access], Place, Denial | None]] = {
    "nobody said anything": ([], GUILD, None),
    "a guild on the list": ([Access(allow_guilds=(1, 2))], GUILD, None),
    "a guild not on it": ([Access(allow_guilds=(2,))], GUILD, Denial.NOT_ALLOWED),
    "a denied guild": ([Access(deny_guilds=(1,))], GUILD, Denial.DENIED),
    "a channel on the list": ([Access(allow_channels=(5,))], GUILD, None),
    "a thread of it": ([Access(allow_channels=(5,))], THREAD, None),
    "another channel": ([Access(allow_channels=(4,))], THREAD, Denial.NOT_ALLOWED),
    "a thread of a denied channel": ([Access(deny_channels=(5,))], THREAD, Denial.DENIED),
    "a role on the list": ([Access(allow_roles=(71,))], GUILD, None),
    "no role on it": ([Access(allow_roles=(72,))], GUILD, Denial.NOT_ALLOWED),
    "no role on it, but by name": ([Access(allow_roles=(72,), allow_users=(9,))], GUILD, None),
    "a denied role": ([Access(deny_roles=(70,), allow_users=(9,))], GUILD, Denial.DENIED),
    "a denied person": ([Access(deny_users=(9,))], GUILD, Denial.DENIED),
    "denied by a layer, allowed by another": (
        [Access(allow_users=(9,)), Access(deny_users=(9,))],
        GUILD,
        Denial.DENIED,
    ),
    "allowed by one layer only": (
        [Access(allow_users=(9,)), Access(allow_users=(8,))],
        GUILD,
        Denial.NOT_ALLOWED,
    ),
    "a direct message": ([Access(allow_guilds=(1,), allow_roles=(3,))], DIRECT, None),
    "no direct messages": ([Access(allow_dm=False)], DIRECT, Denial.NOT_ALLOWED),
    "no direct messages, in a guild": ([Access(allow_dm=False)], GUILD, None),
    "a direct message of another": ([Access(allow_users=(8,))], DIRECT, Denial.NOT_ALLOWED),
    "a direct message of a denied one": ([Access(deny_users=(9,))], DIRECT, Denial.DENIED),
}


@pytest.mark.parametrize(("access", "place", "expected"), ACCESS.values(), ids=ACCESS.keys())
def test_who_may_talk_to_the_bot(access: list[Access], place: Place, expected: Denial | None):
    assert denial(access, place) is expected
