"""What a waiting person is told, and when it goes away."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from gateway.front import Button, OutgoingMessage, Refusal, Refused, Sent, Unavailable
from gateway.typist import Elsewhere, Left, Typist
from tests.support.channel import MemoryFront


class Words:
    """A turn's place as a test changes it, for the gateway `own`; those `beside` share notices."""

    def __init__(
        self,
        words: str | None = "2 before you",
        own: str = "first",
        beside: "Words | None" = None,
    ) -> None:
        self.said = words
        self.is_shown = False
        self.asked: list[str] = []
        self.own = own
        self.left: dict[str, Left] = {} if beside is None else beside.left
        self.living: set[str] = set() if beside is None else beside.living

    async def words(self, turn_id: str, locale: str) -> str | None:
        self.asked.append(f"{turn_id} {locale}")
        return self.said

    async def is_answered(self, turn_id: str) -> bool:
        return self.is_shown

    def nonce(self, turn_id: str, nth: int) -> str:
        return f"{turn_id}-{nth}"

    def buttons(self, turn_id: str, locale: str) -> tuple[Button, ...]:
        return (Button(custom_id=f"stop:{turn_id}", label=locale),)

    async def remember(self, left: Left) -> None:
        self.left[left.turn_id] = msgspec.structs.replace(left, gateway=self.own)

    async def forget(self, turn_id: str) -> None:
        self.left.pop(turn_id, None)

    async def elsewhere(self, turn_id: str) -> Left | Elsewhere:
        left = self.left.get(turn_id)
        if left is None:
            return Elsewhere.NONE
        return Elsewhere.KEPT if left.gateway in self.living else left


def signs(words: Words, silence_s: float = 0.0) -> Typist:
    return Typist(words, refresh_s=0.002, silence_s=silence_s)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.001)


@pytest.fixture
def front() -> MemoryFront:
    return MemoryFront()


async def test_who_waits_is_told_for_what_in_their_language(front: MemoryFront):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7, reply_to=5, locale="de")
        await until(lambda: front.shown(7) == ["2 before you"])
        (message,) = front.channels[7].values()
        assert (message.reply_to, message.is_notice, message.nonce) == (5, True, "l1-0")
        assert words.asked[0] == "l1 de"
        assert words.left["l1"].locale == "de"
        typist.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


async def test_a_place_is_kept_up_to_date_in_one_message(front: MemoryFront):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        words.said = "you are next"
        await until(lambda: front.shown(7) == ["you are next"])
        words.said = ""  # nobody knows
        before = len(words.asked)
        await until(lambda: len(words.asked) > before + 1)
        assert front.shown(7) == ["you are next"]
        assert len(front.nonces) == 1


async def test_a_turn_that_is_started_waits_no_more_and_one_that_comes_back_does(
    front: MemoryFront,
):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        words.said = None
        await until(lambda: front.shown(7) == [])
        words.said = "once more"
        await until(lambda: front.shown(7) == ["once more"])
        assert set(front.nonces) == {"l1-0", "l1-1"}


async def test_who_is_answered_soon_is_told_nothing(front: MemoryFront):
    words = Words()
    typist = signs(words, silence_s=60.0)
    async with typist.running():
        typist.start("l1", front, 7)
        await asyncio.sleep(0.02)
        typist.stop("l1")
    assert words.asked == []


async def test_a_stop_in_the_middle_of_a_post_leaves_nothing(front: MemoryFront):
    gate = asyncio.Event()

    class Slow(MemoryFront):
        async def send(self, message):
            await gate.wait()
            return await super().send(message)

    slow = Slow()
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", slow, 7)
        await until(lambda: bool(words.asked))
        await asyncio.sleep(0)
        typist.stop("l1")
        gate.set()
    assert slow.shown(7) == []


async def test_the_end_of_the_gateway_takes_notices_away(front: MemoryFront):
    typist = signs(Words())
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
    assert front.shown(7) == []


@pytest.mark.parametrize(
    "outcome", [Unavailable(reason="x"), Refused(refusal=Refusal.CHANNEL)], ids=["away", "refused"]
)
async def test_a_notice_that_cannot_be_posted_is_tried_again_later(
    front: MemoryFront, outcome: Unavailable | Refused
):
    front.script = [outcome]
    typist = signs(Words())
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])


@pytest.mark.parametrize("ends", ["started meanwhile", "shown later"])
async def test_the_notice_of_a_killed_gateway_is_taken_away_by_the_next(
    front: MemoryFront, ends: str
):
    words = Words()
    outcome = await front.send(
        OutgoingMessage(channel_id=7, text="2 before you", nonce="l1-0", is_notice=True)
    )
    assert isinstance(outcome, Sent)
    left = Left(turn_id="l1", channel_id=7, message_id=outcome.message_id)
    await words.remember(left)
    if ends == "started meanwhile":
        words.said = None
    typist = signs(words)
    async with typist.running():
        typist.adopt(front, left)
        if ends == "shown later":
            words.said = "you are next"
            await until(lambda: front.shown(7) == ["you are next"])
            assert front.typed == []
            typist.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


async def test_a_notice_that_could_not_be_deleted_is_tried_again(front: MemoryFront):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        front.script = [Unavailable(reason="x")]
        words.said = None
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_notice_that_could_not_be_deleted_at_the_end_is_not_left(
    front: MemoryFront, tries: int
):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        front.script = [Unavailable(reason="x")] * tries
        typist.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


async def test_a_notice_whose_receipt_was_lost_is_not_left(front: MemoryFront):
    front.loses_answers = 1
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7, reply_to=5)
        await until(lambda: front.shown(7) == ["2 before you"])
        typist.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


async def test_a_notice_whose_fate_is_unknown_is_looked_for_until_it_is_known(front: MemoryFront):
    """The answer to the post is lost, and then the history cannot be read for a while."""
    front.loses_answers = 1
    front.history_fails = 2
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7, reply_to=5)
        await until(lambda: front.shown(7) == ["2 before you"])
        words.said = ""
        typist.stop("l1")
        await until(lambda: front.shown(7) == [])


async def test_a_front_that_stays_away_is_not_asked_for_ever(
    front: MemoryFront, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gateway.typist.TYPING_TTL_S", 24.0)
    typist = signs(Words())
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        front.script = [Unavailable(reason="x")] * 100
        typist.stop("l1")
        await asyncio.sleep(0.1)
        assert len(front.script) > 90
    assert front.shown(7) == ["2 before you"]


async def test_a_sign_ends_when_another_gateway_shows_the_answer(front: MemoryFront):
    words = Words()
    typist = signs(words, silence_s=60.0)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: len(front.typed) > 2)
        words.is_shown = True
        await asyncio.sleep(0.01)
        typed = len(front.typed)
        await asyncio.sleep(0.02)
        assert len(front.typed) == typed


@pytest.mark.parametrize("has_arrived", [True, False], ids=["arrived", "lost"])
async def test_a_gateway_that_dies_while_it_posts_leaves_no_notice(
    front: MemoryFront, has_arrived: bool
):
    """Whoever comes next knows of the post before its receipt."""
    words, sent, known = Words(), asyncio.Event(), list[Left]()

    class Dying(MemoryFront):
        async def send(self, message):
            known.extend(words.left.values())
            if has_arrived:
                await front.send(message)
            sent.set()
            await asyncio.Event().wait()

    dying = asyncio.create_task(_life(signs(words), Dying()), name="first life")
    await sent.wait()
    (left,) = known
    words.said = None
    typist = signs(words)
    async with typist.running():
        typist.adopt(front, left)
        await until(lambda: front.shown(7) == [] and words.left == {})
    dying.cancel()


async def _life(typist: Typist, front: MemoryFront) -> None:
    async with typist.running():
        typist.start("l1", front, 7, reply_to=5)
        await asyncio.Event().wait()


async def test_a_notice_that_was_being_posted_is_kept_and_not_doubled(front: MemoryFront):
    words = Words()
    await front.send(OutgoingMessage(channel_id=7, text="2 before you", nonce="l1-3"))
    left = Left(turn_id="l1", channel_id=7, nth=3, text="2 before you", reply_to=5)
    await words.remember(left)
    typist = signs(words)
    async with typist.running():
        typist.adopt(front, left)
        await until(lambda: words.left["l1"].message_id > 0 if words.left else False)
        words.said = "you are next"
        await until(lambda: front.shown(7) == ["you are next"])
        typist.stop("l1")
    assert front.shown(7) == []


async def test_whoever_waits_while_gateways_are_replaced_has_a_sign_and_a_notice_again(
    front: MemoryFront,
):
    """The new gateway is there before the old one ends in order, and takes its notice away."""
    before = Words(own="old")
    after = Words(own="new", beside=before)
    before.living |= {"old", "new"}
    new = signs(after)
    async with new.running():
        old = signs(before)
        async with old.running():
            old.start("l1", front, 7, reply_to=5)
            await until(lambda: "l1" in before.left and before.left["l1"].message_id > 0)
            new.start("l1", front, 7, reply_to=5)
            new.adopt(front, before.left["l1"])
            await until(lambda: len(after.asked) > 1)
            assert front.shown(7) == ["2 before you"]
            assert before.left["l1"].gateway == "old"
        typed = len(front.typed)
        await until(lambda: front.shown(7) == ["2 before you"] and len(front.typed) > typed)
        assert after.left["l1"].gateway == "new"
        new.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert after.left == {}


async def test_a_notice_that_somebody_has_deleted_is_posted_again(front: MemoryFront):
    words = Words()
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        await until(lambda: front.shown(7) == ["2 before you"])
        front.channels[7].clear()
        words.said = "you are next"
        await until(lambda: front.shown(7) == ["you are next"])
        typist.stop("l1")
        await until(lambda: front.shown(7) == [])
    assert words.left == {}


async def test_the_notice_of_a_gateway_that_seems_to_live_is_taken_over_once_it_does_not(
    front: MemoryFront,
):
    """The heartbeat of a gateway that was killed stays for some seconds."""
    words = Words(own="dead")
    outcome = await front.send(OutgoingMessage(channel_id=7, text="2 before you", nonce="l1-0"))
    assert isinstance(outcome, Sent)
    left = Left(turn_id="l1", channel_id=7, message_id=outcome.message_id)
    await words.remember(left)
    words.living.add("dead")
    words.own = "new"
    typist = signs(words)
    async with typist.running():
        typist.start("l1", front, 7)
        typist.adopt(front, left)
        await until(lambda: len(front.typed) > 2)
        typist.stop("l1")  # the answer begins to show
        await asyncio.sleep(0.01)
        assert front.shown(7) == ["2 before you"]
        words.living.clear()
        await until(lambda: front.shown(7) == [])
    assert words.left == {}
