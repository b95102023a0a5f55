"""Intake: a prompt becomes one turn, or the person is told why not."""

import asyncio
from typing import Any

import pytest

from gateway.context import Paced
from gateway.front import Change, Echo, Prompt, PromptsDeleted, Unavailable
from gateway.intake import BUSY_LOAD
from gateway.telling import DECLINE_WAITS_S
from gateway.typist import Typist
from shared.configuration.choices import Access, Place, Settled, Speak
from shared.errors import RequestTooLarge, StoreUnavailable
from shared.history import Attachment
from shared.segments import DeliveryMode
from shared.turns import Admission, FollowUp, Front, Lanes, Target
from tests.support.channel import MemoryFront
from tests.support.intake import TARGET, TEXTS, Admissions, Fixed, prompt, take


@pytest.fixture
def front() -> MemoryFront:
    return MemoryFront()


async def test_a_prompt_becomes_a_turn_and_a_typing_sign(front):
    admissions = Admissions()
    await take(admissions, prompt(), front=front)
    (request,) = admissions.requests
    assert (request.turn_id, request.target, request.messages[0].content) == (
        "l10",
        TARGET,
        "hello",
    )
    assert front.typed == [7]
    assert [taken.message_id for taken in front.taken] == [10]
    assert front.shown(7) == []


async def test_a_prompt_may_choose_its_model(front):
    admissions = Admissions()
    other = Target(provider="rehearsal", model="slow")
    await take(admissions, prompt(target=other), front=front)
    assert admissions.requests[0].target == other


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Admission.DUPLICATE, []),
        (Admission.GUILD_FULL, [TEXTS.text("notice.guild_busy")]),
        (Admission.FULL, [TEXTS.text("notice.busy")]),
        (RequestTooLarge(), [TEXTS.text("notice.too_large")]),
    ],
    ids=["duplicate", "guild full", "full", "too large"],
)
async def test_a_prompt_that_becomes_no_turn_is_answered_and_handled(front, answer, said):
    await take(Admissions(answer), prompt(), front=front)
    assert front.shown(7) == said
    assert front.typed == []
    assert len(front.taken) == 1


async def test_saying_busy_twice_shows_it_once(front):
    await take(Admissions(Admission.FULL, Admission.FULL), prompt(), prompt(), front=front)
    assert front.shown(7) == [TEXTS.text("notice.busy")]


@pytest.mark.parametrize(
    ("words", "answer"), [("", Admission.ACCEPTED), ("hello", RequestTooLarge())]
)
async def test_a_prompt_that_is_found_again_after_its_notice_hears_nothing(front, words, answer):
    """The window of nonces has passed when a backfill finds it."""
    admissions = Admissions(answer, answer)
    await take(admissions, prompt(words), front=front)
    assert len(front.shown(7)) == 1
    front.nonces.clear()
    await take(admissions, prompt(words), front=front)
    assert len(front.shown(7)) == 1
    assert len(front.taken) == 2


async def test_a_notice_that_could_not_be_said_leaves_the_prompt_unhandled(front):
    front.script = [Unavailable(reason="connection")] * 99
    await take(Admissions(Admission.FULL), prompt(), front=front)
    assert front.taken == []


@pytest.mark.parametrize("failures", [1, len(DECLINE_WAITS_S)])
async def test_a_notice_that_meets_an_outage_is_said_when_it_is_over(front, failures):
    front.script = [Unavailable(reason="connection", retry_after_s=1.0)] * failures
    await take(Admissions(Admission.FULL), prompt(), front=front)
    assert front.shown(7) == [TEXTS.text("notice.busy")]
    assert len(front.taken) == 1


async def test_above_what_discord_takes_admission_says_busy(front):
    admissions = Admissions()
    await take(admissions, prompt(), front=front, load=BUSY_LOAD)
    assert (admissions.requests, front.shown(7)) == ([], [TEXTS.text("notice.busy")])
    await take(admissions, prompt(message_id=11), front=front, load=BUSY_LOAD - 0.01)
    assert len(admissions.requests) == 1


async def test_what_is_no_prompt_is_heeded(front):
    heeded: list[Change] = []
    change = PromptsDeleted(channel_id=7, turn_ids=("m1",))
    await take(Admissions(), change, front=front, heeded=heeded)
    assert heeded == [change]


async def test_an_empty_prompt_is_asked_back(front):
    await take(Admissions(), prompt("<@99> "), front=front)
    assert front.shown(7) == [TEXTS.text("notice.empty_prompt")]


async def test_talk_of_others_is_handled_without_a_word(front):
    others = prompt(front=Front.DISCORD, guild_id=3)
    admissions = Admissions()
    await take(admissions, others, front=front)
    assert (admissions.requests, front.shown(7), len(front.taken)) == ([], [], 1)


async def test_a_channel_that_refused_us_is_not_asked_again(front):
    admissions = Admissions()
    admissions.blocked.add(7)
    await take(admissions, prompt(), front=front)
    assert admissions.requests == []
    assert len(front.taken) == 1


async def test_an_absent_store_is_waited_for(front):
    admissions = Admissions(StoreUnavailable(), StoreUnavailable())
    await take(admissions, prompt(), front=front)
    assert len(admissions.requests) == 1


async def test_a_declined_prompt_comes_again_when_it_cannot_be_noted(front):
    class Forgetful(MemoryFront):
        async def handled(self, prompt: Prompt) -> None:
            raise StoreUnavailable

    forgetful = Forgetful()
    await take(Admissions(Admission.FULL), prompt(), front=forgetful)
    assert forgetful.shown(7) == [TEXTS.text("notice.busy")]


async def test_echoes_go_to_delivery(front):
    echo = Echo(nonce="n", channel_id=7, message_id=1)
    assert await take(Admissions(), echo, front=front) == [echo]


async def test_a_sign_is_renewed_until_the_answer_shows(front):
    typist = Typist(refresh_s=0.001)
    async with typist.running():
        typist.start("l1", front, 7)
        typist.start("l1", front, 7)
        await asyncio.sleep(0.02)
        typist.stop("l1")
        seen = len(front.typed)
        assert seen > 1
        await asyncio.sleep(0.01)
        assert len(front.typed) == seen


async def test_an_answer_that_was_quicker_than_its_sign_gets_none(front):
    typist = Typist()
    async with typist.running():
        typist.stop("l1")
        typist.start("l1", front, 7)
        await asyncio.sleep(0)
    assert front.typed == []


async def test_a_sign_ends_by_itself_and_old_turns_are_forgotten(front):
    typist = Typist(refresh_s=0.0)
    async with asyncio.timeout(5), typist.running():
        typist.start("l1", front, 7)
        await asyncio.sleep(0.05)
        assert len(front.typed) == 41
        for number in range(1_200):
            typist.stop(f"x{number}")
        typist.stop("l1")
    typist.start("l2", front, 7)
    assert len(front.typed) == 41


GUILD: dict[str, Any] = {"front": Front.DISCORD, "guild_id": 1, "mentions_bot": True}


async def test_what_holds_at_a_place_makes_the_request(front):
    admissions = Admissions()
    fallback = Target(provider="rehearsal", model="slow")
    settled = Settled(
        target=TARGET,
        fallbacks=(fallback,),
        system="Be brief.",
        locale="de",
        delivery_mode=DeliveryMode.LINE,
        follow_up=FollowUp.MERGE,
        lane=Lanes.USER,
        tools=("calculate",),
        persona_id="ada",
    )
    fixed = Fixed(settled)
    asked = prompt(**GUILD, parent_id=6, roles=(70,))
    await take(admissions, asked, front=front, fixed=fixed)
    (request,) = admissions.requests
    assert (request.target, request.fallbacks) == (TARGET, (fallback,))
    assert (request.system, request.persona) == ("Be brief.", "ada")
    assert (request.delivery_mode, request.follow_up) == ("line", FollowUp.MERGE)
    assert (request.lane, request.tool_names) == (Lanes.USER, ("calculate",))
    assert (request.route.locale, request.route.parent_id) == ("de", 6)
    assert fixed.places == [
        Place(channel_id=7, user_id=5, guild_id=1, parent_id=6, roles=(70,)),
    ]


async def test_a_prompts_own_model_has_no_fallbacks_of_another(front):
    admissions = Admissions()
    fixed = Fixed(Settled(target=TARGET, fallbacks=(TARGET,)))
    other = Target(provider="rehearsal", model="slow")
    await take(admissions, prompt(target=other), front=front, fixed=fixed)
    assert admissions.requests[0].fallbacks == ()


@pytest.mark.parametrize("speak", Speak)
async def test_a_message_to_nobody_is_answered_where_the_bot_always_speaks(front, speak):
    admissions = Admissions()
    facts: dict[str, Any] = {**GUILD, "mentions_bot": False}
    await take(
        admissions,
        prompt(**facts),
        prompt(**facts, message_id=11, from_bot=True),
        prompt(**facts, message_id=12, text=" "),
        front=front,
        fixed=Fixed(Settled(target=TARGET, speak=speak)),
    )
    expected = ["m10"] if speak is Speak.ALWAYS else []
    assert [request.turn_id for request in admissions.requests] == expected
    assert front.shown(7) == []


PICTURE = Attachment(id=3, name="cat.png", url="https://cdn/cat.png", mime_type="image/png")


@pytest.mark.parametrize("speak", Speak)
async def test_a_file_without_a_word_is_a_prompt_where_words_would_be_one(front, speak):
    admissions = Admissions()
    facts: dict[str, Any] = {**GUILD, "attachments": (PICTURE,)}
    await take(
        admissions,
        prompt(**facts | {"text": "<@0>", "mentions_bot": True}),
        prompt(**facts | {"text": "", "mentions_bot": False, "message_id": 11}),
        front=front,
        fixed=Fixed(Settled(target=TARGET, speak=speak)),
    )
    expected = ["m10", "m11"] if speak is Speak.ALWAYS else ["m10"]
    assert [request.turn_id for request in admissions.requests] == expected
    assert all(one.reading and one.reading.attachments for one in admissions.requests)


REFUSED = {
    "not on the list": (Access(allow_roles=(3,)), True, "I am not set up to answer here."),
    "denied": (Access(deny_users=(5,)), True, None),
    "not on the list, and not spoken to": (Access(allow_roles=(3,)), False, None),
}


@pytest.mark.parametrize(("access", "is_called", "said"), REFUSED.values(), ids=REFUSED.keys())
async def test_who_may_not_talk_to_the_bot(front, access, is_called, said):
    admissions = Admissions()
    fixed = Fixed(Settled(target=TARGET, access=(access,), speak=Speak.ALWAYS))
    await take(
        admissions,
        prompt(**{**GUILD, "mentions_bot": is_called}),
        front=front,
        fixed=fixed,
    )
    assert admissions.requests == []
    assert front.shown(7) == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("paced", "said"), [(Paced.TOO_SOON, "That was quick."), (Paced.TOO_MANY, "You have several")]
)
async def test_a_person_who_asks_too_much_is_told(front, paced, said):
    admissions = Admissions()
    await take(admissions, prompt(), front=front, fixed=Fixed(Settled(target=TARGET), paced))
    assert admissions.requests == []
    assert front.shown(7)[0].startswith(said)
    assert admissions.declined == ["l10"]
