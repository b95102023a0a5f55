"""Who is answered, under which turn id, on which route."""

import doctest

import pytest

from gateway import addressing
from gateway.addressing import is_addressed, named, route_of, text_without_call, turn_id_of
from gateway.front import Prompt
from shared.turns import Front, Route


def prompt(**facts: object) -> Prompt:
    given: dict[str, object] = {
        "front": Front.DISCORD,
        "message_id": 10,
        "channel_id": 7,
        "user_id": 5,
        "guild_id": 3,
        "text": "hello",
    }
    return Prompt(**(given | facts))  # type: ignore[arg-type]  # facts by name


@pytest.mark.parametrize(
    ("facts", "answered"),
    [
        ({}, False),
        ({"mentions_bot": True}, True),
        ({"replies_to_bot": True}, True),
        ({"guild_id": None}, True),
        ({"front": Front.LOCAL}, True),
        ({"mentions_bot": True, "from_bot": True}, False),
        ({"guild_id": None, "from_bot": True}, False),
    ],
    ids=["talk of others", "mention", "reply", "private", "local", "a bot's mention", "a bot's"],
)
def test_the_bot_answers_who_speaks_to_it(facts, answered):
    assert is_addressed(prompt(**facts)) is answered


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<@42> hello", "hello"),
        ("<@!42>, hello", "hello"),
        ("hello <@42>", "hello"),
        ("  <@42>:  hello  ", "hello"),
        ("is <@42> a bot?", "is <@42> a bot?"),
        ("<@43> hello", "<@43> hello"),
        ("<@42>", ""),
        ("<@42> <@42>", ""),
    ],
)
def test_the_mention_that_calls_is_no_part_of_the_prompt(text, left):
    assert text_without_call(text, 42) == left


def test_a_turn_is_named_by_its_message_and_answers_it():
    assert turn_id_of(prompt()) == "m10"
    assert turn_id_of(prompt(front=Front.LOCAL)) == "l10"
    assert route_of(prompt()) == Route(
        front=Front.DISCORD, channel_id=7, user_id=5, guild_id=3, reply_to=10
    )


def test_the_examples_run():
    assert doctest.testmod(addressing).failed == 0


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Ann, what is this?", "what is this?"),
        ("ANN: hi", "hi"),
        ("  ann hi", "hi"),
        ("ann", ""),
        ("Anna, hi", None),
        ("hi ann", None),
        ("old bot! hi", "hi"),
    ],
)
def test_a_name_at_the_beginning_calls_the_bot(text, rest):
    found = named(prompt(text=text, guild_id=3), ("ann", "old bot"))
    assert found.mentions_bot is (rest is not None)
    assert found.text == (text if rest is None else rest)
