"""The courier: one step through outages, limits and lost answers."""

import msgspec
import pytest

from gateway.delivery.courier import BACKOFF_S, PROBE_S, Courier, Echoes, Letter
from gateway.delivery.turns import LeaseLost
from gateway.front import (
    Echo,
    OutgoingFile,
    OutgoingMessage,
    Rank,
    Refusal,
    Refused,
    Sent,
    Unavailable,
)
from gateway.snowflakes import snowflake_at
from gateway.steps import Erase, Post, Rewrite, Step
from shared.turns import Front, Route, Speaker
from tests.support.channel import ManualClock, MemoryBudget, MemoryFront

ROUTE = Route(front=Front.LOCAL, channel_id=7, user_id=5, reply_to=500)
POST = Post(slot=0, nonce="n1", text="hello")
AWAY = Unavailable(reason="server_error", status=502)
LIMITED = Unavailable(reason="rate_limited", retry_after_s=2.5, is_limited=True)


def letter(step: Step = POST, *, patience_s: float = 900.0, route: Route = ROUTE) -> Letter:
    return Letter(step=step, route=route, expires_s=ManualClock().time_s + patience_s)


class Office:
    def __init__(self) -> None:
        self.front = MemoryFront()
        self.clock = ManualClock()
        self.echoes = Echoes()
        self.budget = MemoryBudget(self.clock)
        self.courier = Courier(
            self.front,
            clock=self.clock,
            echoes=self.echoes,
            jitter=lambda: 1.0,
            budget=self.budget,
        )
        self.confirmed = 0

    async def carry(self, letter: Letter) -> Sent | Refused | None:
        return await self.courier.carry(letter, self.confirm)

    async def confirm(self) -> None:
        self.confirmed += 1


@pytest.fixture
def office() -> Office:
    return Office()


async def test_the_first_message_answers_the_prompt_and_the_next_do_not(office):
    await office.carry(letter())
    await office.carry(letter(Post(slot=1, nonce="n2", text="more")))
    first, second = office.front.messages(7)
    assert (first.reply_to, second.reply_to) == (500, None)
    assert first.may_ping == ()


async def test_outages_are_waited_for_with_growing_pauses(office):
    office.front.script = [AWAY] * 7
    assert await office.carry(letter()) == Sent(message_id=1001)
    assert office.clock.waits == [*BACKOFF_S, PROBE_S, PROBE_S]


async def test_before_each_try_it_is_asked_whether_the_step_is_still_ours(office):
    office.front.script = [AWAY] * 3
    await office.carry(letter())
    assert office.confirmed == 4


async def test_a_step_that_is_not_ours_any_more_is_left(office):
    async def refuse() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        await office.courier.carry(letter(), refuse)
    assert office.front.requests == []


async def test_a_rate_limit_is_waited_for_exactly_and_counts_as_no_failure(office):
    office.front.script = [Unavailable(reason="rate_limited", retry_after_s=2.5), AWAY, None]
    await office.carry(letter())
    assert office.clock.waits == [2.5, BACKOFF_S[0]]


@pytest.mark.parametrize("speaker", [None, Speaker(name="Ada")], ids=["bot", "persona"])
async def test_what_came_too_early_is_asked_again_with_its_permit_and_without_doubt(
    office, speaker
):
    office.front.script = [LIMITED] * 3
    office.front.history_fails = 1_000
    route = msgspec.structs.replace(ROUTE, speaker=speaker)
    assert await office.carry(letter(route=route)) == Sent(message_id=1001)
    assert office.clock.waits == [2.5] * 3
    assert office.confirmed == 4
    assert office.budget.asked == [Rank.FIRST]


async def test_each_request_that_was_made_has_a_permit(office):
    refused = Refused(refusal=Refusal.REFERENCE, status=403, code=160002)
    office.front.script = [AWAY, LIMITED, refused, LIMITED]
    assert await office.carry(letter()) == Sent(message_id=1001)
    assert office.front.messages(7)[0].reply_to is None
    assert office.budget.asked == [Rank.FIRST] * 3
    assert office.confirmed == 5


async def test_a_lost_answer_makes_no_second_message(office):
    office.front.loses_answers = 1
    outcome = await office.carry(letter())
    assert outcome == Sent(message_id=1001, deduplicated=True)
    assert office.front.shown(7) == ["hello"]


async def test_an_echo_is_a_receipt(office):
    office.front.script = [AWAY]
    office.echoes.absorb(Echo(nonce="n1", channel_id=7, message_id=42))
    assert await office.carry(letter()) == Sent(message_id=42, deduplicated=True)
    assert office.front.requests == []


async def test_echoes_are_bounded(office):
    for number in range(1_500):
        office.echoes.absorb(Echo(nonce=str(number), channel_id=7, message_id=number))
    assert office.echoes.find("499") is None
    assert office.echoes.find("500") == 500


@pytest.mark.parametrize("words", ["hello", "\n    hello\n"], ids=["as sent", "trimmed"])
async def test_an_old_post_of_unknown_fate_is_looked_for_in_the_history(office, words):
    await office.carry(letter(Post(slot=0, nonce="before", text="hello")))
    office.front.nonces.clear()  # the window has passed
    since_ms = int((office.clock.time_s - 200) * 1000)
    step = msgspec.structs.replace(POST, text=words, since_ms=since_ms)
    assert await office.carry(letter(step)) == Sent(message_id=1001, deduplicated=True)
    assert office.front.shown(7) == ["hello"]


@pytest.mark.parametrize("has_history", [True, False], ids=["not there", "not readable"])
async def test_an_old_post_that_is_not_found_is_sent(office, has_history):
    office.front.has_history = has_history
    step = msgspec.structs.replace(POST, since_ms=1)
    assert await office.carry(letter(step)) == Sent(message_id=1001)


HELLO = OutgoingMessage(channel_id=7, text="hello", nonce="")
PERSONA = msgspec.structs.replace(ROUTE, speaker=Speaker(name="Ada"))


async def test_what_has_no_nonce_is_not_sent_again_before_the_history_answers(office):
    office.front.loses_answers = 1
    office.front.history_fails = 3
    outcome = await office.carry(letter(route=PERSONA))
    assert outcome == Sent(message_id=1001, deduplicated=True)
    assert office.front.requests == ["send"]


async def test_a_history_that_stays_away_is_not_waited_for_for_ever(office):
    office.front.history_fails = 1_000
    step = msgspec.structs.replace(POST, since_ms=1)
    assert await office.carry(letter(step, route=PERSONA)) == Sent(message_id=1001)
    assert office.clock.waits == list(BACKOFF_S)


async def test_what_others_said_before_the_first_try_is_not_looked_through(office):
    """A busy channel says more than one page between a prompt and its answer."""
    began_ms = int(office.clock.time_s * 1000) - 1_000
    asked, other, ours = (snowflake_at(began_ms + ms) for ms in (-600_000, -300_000, 200))
    route = msgspec.structs.replace(PERSONA, front=Front.DISCORD, reply_to=asked)
    for message_id in (other, ours):
        office.front.channels.setdefault(7, {})[message_id] = HELLO
        office.front.texts[message_id] = HELLO.text
    step = msgspec.structs.replace(POST, since_ms=began_ms)
    outcome = await office.carry(letter(step, route=route))
    assert outcome == Sent(message_id=ours, deduplicated=True)


@pytest.mark.parametrize("after", ["previous_id", "after_id"])
async def test_what_was_ours_before_is_another_message_though_it_reads_the_same(office, after):
    first = await office.carry(letter(Post(slot=0, nonce="before", text="hello")))
    office.front.script = [AWAY]
    step = msgspec.structs.replace(POST, **{after: first.message_id})
    assert await office.carry(letter(step, route=PERSONA)) == Sent(message_id=1002)
    assert office.courier.last_in(7) == 1002


SHOWN = OutgoingFile(name="a table.png", data=b"")


@pytest.mark.parametrize(
    ("names", "is_it"),
    [
        (("a table.png",), True),
        (("a_table.png",), True),
        (("another.png",), False),
        ((), False),
        (("a table.png", "b.png"), False),
        (("表.png",), True),
    ],
    ids=["the same", "as Discord names it", "another", "none", "two", "not to be compared"],
)
async def test_a_message_with_files_is_known_by_their_names(office, names, is_it):
    office.front.channels[7] = {999: msgspec.structs.replace(HELLO, files=(SHOWN,))}
    office.front.texts[999] = "hello"
    files = tuple(OutgoingFile(name=name, data=b"x") for name in names)
    step = msgspec.structs.replace(POST, files=files, since_ms=1)
    outcome = await office.carry(letter(step, route=PERSONA))
    assert outcome == Sent(message_id=999 if is_it else 1001, deduplicated=is_it)


async def test_last_messages_are_bounded(office):
    for channel in range(2_100):
        route = msgspec.structs.replace(ROUTE, channel_id=channel)
        await office.carry(letter(Post(slot=0, nonce=str(channel), text="hello"), route=route))
    assert office.courier.last_in(99) is None
    assert office.courier.last_in(100) is not None


async def test_a_young_post_of_unknown_fate_relies_on_its_nonce(office):
    office.front.has_history = False
    step = msgspec.structs.replace(POST, since_ms=int(office.clock.time_s * 1000) - 1)
    assert await office.carry(letter(step)) == Sent(message_id=1001)


async def test_without_a_place_to_begin_no_history_is_read(office):
    route = msgspec.structs.replace(ROUTE, reply_to=None)
    step = msgspec.structs.replace(POST, since_ms=1)
    assert await office.carry(letter(step, route=route)) == Sent(message_id=1001)


async def test_a_reply_that_may_not_refer_is_sent_plainly(office):
    office.front.script = [Refused(refusal=Refusal.REFERENCE, status=403, code=160002)]
    assert await office.carry(letter()) == Sent(message_id=1001)
    assert office.front.messages(7)[0].reply_to is None


async def test_nobody_waits_for_ever(office):
    office.front.script = [AWAY] * 1_000
    assert await office.carry(letter(patience_s=100.0)) is None
    assert sum(office.clock.waits) == pytest.approx(100.0)


async def test_a_letter_that_is_late_is_not_even_tried(office):
    assert await office.carry(letter(patience_s=-1.0)) is None
    assert office.front.requests == []


async def test_edits_and_deletions_go_to_the_front(office):
    await office.carry(letter())
    await office.carry(letter(Rewrite(slot=0, message_id=1001, text="new")))
    assert office.front.shown(7) == ["new"]
    await office.carry(letter(Erase(slot=0, message_id=1001)))
    assert office.front.shown(7) == []
    assert await office.carry(letter(Erase(slot=0, message_id=None))) == Sent(message_id=0)


async def test_an_edit_is_tried_again_too(office):
    await office.carry(letter())
    office.front.script = [AWAY]
    edit = Rewrite(slot=0, message_id=1001, text="new")
    assert await office.carry(letter(edit)) == Sent(message_id=1001)


async def test_a_refusal_is_final(office):
    refused = Refused(refusal=Refusal.CHANNEL, status=403, code=50013)
    office.front.script = [refused]
    assert await office.carry(letter()) == refused
