"""A prompt as a request, and as the channel's memory keeps it."""

import msgspec
import pytest

from gateway.context import readable, reading_of, remembered_of
from gateway.front import Prompt
from shared.configuration.choices import Persona, Settled
from shared.history import Attachment, Context, Reading, Remembered
from shared.turns import Front, Target

TARGET = Target(provider="rehearsal", model="plain")
PICTURE = Attachment(id=3, name="cat.png", url="https://cdn.invalid/cat.png", mime_type="image/png")
REPLIED = Remembered(id=5, user_id=8, text="older", author="Bea", attachments=(PICTURE,))
PROMPT = Prompt(
    front=Front.DISCORD,
    message_id=10,
    channel_id=7,
    user_id=5,
    guild_id=1,
    text="what does <@8> mean?",
    author="Ann",
    own_name="Bot",
    names=((8, "Bea"),),
    replied=REPLIED,
)

TEXTS = {
    "a known person": ("<@8> and <@!8>", "@Bea and @Bea"),
    "an unknown person": ("<@9>", "<@9>"),
    "an emoji": ("<:wave:123> <a:dance:124>", ":wave: :dance:"),
    "a channel and a time stay": ("<#4> <t:1:R>", "<#4> <t:1:R>"),
    "an impossible id": (f"<@{'9' * 30}>", f"<@{'9' * 30}>"),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS.keys())
def test_names_instead_of_numbers(text: str, expected: str):
    assert readable(text, {8: "Bea"}) == expected


def test_a_prompt_is_remembered_with_names():
    assert remembered_of(PROMPT) == Remembered(
        id=10, user_id=5, text="what does @Bea mean?", author="Ann", reply_to=5
    )


def test_what_a_turn_reads():
    settled = Settled(target=TARGET, context=Context.REPLIES, history_messages=9, details_hours=2)
    assert reading_of(PROMPT, settled) == Reading(
        before=10,
        context=Context.REPLIES,
        messages=9,
        reply_to=5,
        author="Ann",
        own_name="Bot",
        attachments=(PICTURE,),
        members=(("Ann", 5), ("Bea", 8)),
        details_hours=2,
    )
    persona = Settled(target=TARGET, persona=Persona(name="Ada"))
    assert reading_of(PROMPT, persona).own_name == "Ada"
    guarded = Settled(target=TARGET, persona=Persona(name="Ada", speaker_guard=True))
    assert reading_of(PROMPT, guarded).speakers == ("Ann", "Bea")


def test_a_front_that_knows_only_the_id_of_what_is_answered():
    prompt = msgspec.structs.replace(PROMPT, replied=None, reply_to=4)
    assert reading_of(prompt, Settled(target=TARGET)).reply_to == 4
    assert remembered_of(prompt).reply_to == 4


def test_a_name_that_two_people_have_names_nobody():
    prompt = msgspec.structs.replace(PROMPT, author="Bea", text="<:wave:12> <a:dance:13>")
    reading = reading_of(prompt, Settled(target=TARGET))
    assert reading.members == ()
    assert reading.emoji == (("wave", "<:wave:12>"), ("dance", "<a:dance:13>"))
