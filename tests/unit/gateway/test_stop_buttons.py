"""Stop below a running reply: which message carries it, and what takes it away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from gateway.asks import KeptTable
from gateway.delivery.stop_buttons import MAX_FAILURES, WAITS_S
from gateway.front import Rank, Refusal, Refused, Unavailable
from shared.segments import Envelope, SegmentKind, SegmentReady, TurnDone, TurnEvent
from shared.turns import Front, TurnState
from tests.support.delivery import Bench
from tests.support.envelopes import done, envelope, failed, preview, superseded, text

STOP = ["stop:m1"]
NONE: list[str] = []
TABLE = text(1, "| t |", kind=SegmentKind.TABLE, fallback=("x",))
FILE = text(1, "code", kind=SegmentKind.FILE, fallback=("code",), name="a.py")


class StopBench(Bench):
    """A partition whose channel is one of Discord."""

    def __init__(self) -> None:
        super().__init__()
        self.fronts = (Front.DISCORD,)
        self.painter.picture = b"png"

    def add(self, *envelopes: Envelope) -> None:
        self.source.add(*map(of_discord, envelopes))

    @property
    def buttons(self) -> list[list[str]]:
        """What can be pressed below each message, in order."""
        return [
            [button.custom_id.partition(":s:")[0] for button in message.buttons]
            for message in self.front.messages(7)
        ]

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """A gateway that leads; it ends in order."""
        self.stop.clear()
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(self.partition().run(self.stop, drain_s=1.0))
            yield
            self.stop.set()

    async def sees(self, is_met: Callable[[], bool]) -> None:
        while not is_met():
            await asyncio.sleep(0.001)

    async def shows(self, *envelopes: Envelope) -> None:
        """Delivers these and waits until they are acknowledged."""
        self.add(*envelopes)
        await self.sees(lambda: not self.source.entries)

    async def is_tidy(self) -> None:
        await self.sees(lambda: not self.journal.left)


def of_discord(envelope: Envelope, turn: str = "m1") -> Envelope:
    route = msgspec.structs.replace(envelope.route, front=Front.DISCORD)
    return msgspec.structs.replace(envelope, route=route, turn_id=turn)


def last(envelope: Envelope) -> Envelope:
    """The segment, as a worker marks the one that nothing follows."""
    assert isinstance(envelope.event, SegmentReady)
    segment = msgspec.structs.replace(envelope.event.segment, is_last=True)
    return msgspec.structs.replace(envelope, event=SegmentReady(segment=segment))


def ended(state: TurnState, notes: tuple[str, ...] = ()) -> Callable[[int], Envelope]:
    def make(count: int) -> Envelope:
        event: TurnEvent = TurnDone(count=count, state=state, notes=notes)
        return envelope(event, count + 1)

    return make


ENDS = {
    "done": done,
    "failed": failed,
    "stopped": ended(TurnState.CANCELLED),
    "withdrawn": ended(TurnState.CANCELLED, ("withdrawn",)),
    "replaced": ended(TurnState.CANCELLED, ("replaced",)),
    "with a notice": lambda count: done(count, notes=("cut_off",)),
}


@pytest.fixture
def bench() -> StopBench:
    return StopBench()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_running_reply_has_one_button_and_an_ended_one_has_none(bench, end):
    async with bench.leading():
        await bench.shows(text(1, "a"), text(2, "b"))
        assert bench.buttons == [STOP, NONE]
        await bench.shows(end(2))
        await bench.is_tidy()
        assert bench.front.shown(7)[:2] == ["a", "b"]
        assert not any("stop:m1" in buttons for buttons in bench.buttons)
        assert bench.front.requests.count("disarm") == 1
        assert bench.front.requests.count("edit") == 0


@pytest.mark.parametrize(
    "short",
    [
        [text(1, "a"), done(1)],
        [text(1, "a"), text(2, "b"), done(2)],
        [text(1, "a"), failed(1)],
        [last(text(1, "a"))],
        [text(1, "a"), last(text(2, "b"))],
    ],
    ids=["one", "two", "failed", "marked", "two, marked"],
)
async def test_a_reply_whose_end_is_known_has_none_and_costs_nothing(bench, short):
    async with bench.leading():
        await bench.shows(*short)
        if not isinstance(short[-1].event, TurnDone):
            await bench.shows(done(len(short)))
    assert not any("stop:m1" in buttons for buttons in bench.buttons)
    assert "disarm" not in bench.front.requests
    assert bench.journal.left == {}


async def test_a_local_channel_has_none(bench):
    bench.fronts = (Front.LOCAL,)
    async with bench.leading():
        bench.source.add(text(1, "a"))
        await bench.sees(lambda: not bench.source.entries)
        assert bench.buttons == [NONE]


async def test_switched_off_there_is_none(bench):
    bench.shows_stop = False
    async with bench.leading():
        await bench.shows(text(1, "a"))
        assert bench.buttons == [NONE]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(FILE, [STOP, NONE]), (TABLE, [["source"], STOP])],
    ids=["file", "table"],
)
async def test_what_has_a_button_of_its_own_leaves_it_to_the_next_message(bench, first, expected):
    async with bench.leading():
        await bench.shows(first, text(2, "b"))
        shown = [[name.partition(":")[0] for name in names] for names in bench.buttons]
        assert shown == [[name.partition(":")[0] for name in names] for names in expected]
        await bench.shows(done(2))
        await bench.is_tidy()
        assert bench.buttons[0] == NONE or bench.buttons[0][0].startswith("source")
        assert bench.buttons[1] == NONE
        assert [len(message.files) for message in bench.front.messages(7)] == [1, 0]


async def test_the_button_of_a_table_names_what_is_kept_with_its_place(bench):
    async with bench.leading():
        await bench.shows(TABLE)
        ((button,),) = bench.buttons
        route = of_discord(TABLE).route
        kept = KeptTable(
            text="| t |",
            channel_id=route.channel_id,
            user_id=route.user_id,
            guild_id=route.guild_id,
        )
        assert bench.fleet.sources == {button.removeprefix("source:"): kept}


async def test_a_notice_alone_has_none(bench):
    async with bench.leading():
        await bench.shows(failed(0))
        assert "stop:m1" not in bench.buttons[0]


async def test_a_refused_first_text_hands_it_to_its_successor(bench):
    bench.front.script = [Refused(refusal=Refusal.MODERATED, status=400, code=200000)]
    async with bench.leading():
        await bench.shows(text(1, "a"), text(2, "b"))
        assert bench.buttons == [STOP]


async def test_a_message_that_grows_keeps_it_until_the_reply_ends(bench):
    async with bench.leading():
        for words in ("one", "one two"):
            await bench.shows(preview(0, words))
            assert bench.buttons == [STOP]
        await bench.shows(text(1, "one two three"))
        assert bench.buttons == [STOP]
        await bench.shows(done(1))
        await bench.is_tidy()
        assert bench.buttons == [NONE]
        assert bench.front.shown(7) == ["one two three"]


async def test_a_rewrite_that_knows_the_end_takes_it_along(bench):
    async with bench.leading():
        await bench.shows(preview(0, "one"))
        await bench.shows(last(text(1, "one two")))
        assert bench.buttons == [NONE]
        await bench.shows(done(1))
        assert "disarm" not in bench.front.requests


async def test_an_attempt_that_supersedes_moves_it_to_its_own_first_message(bench):
    async with bench.leading():
        await bench.shows(TABLE, text(2, "b"))
        await bench.shows(superseded(2), text(1, "x", attempt=2), text(2, "y", attempt=2))
        assert bench.buttons == [STOP, NONE]
        await bench.shows(done(2, attempt=2))
        await bench.is_tidy()
        assert bench.buttons == [NONE, NONE]
        assert bench.front.requests.count("disarm") == 1


async def test_a_send_whose_fate_is_unknown_is_repeated_with_the_same_button(bench):
    """The gateway dies after the send; when the next one sends it again, the end is known."""
    bench.front.script = [Unavailable(reason="timeout")]
    async with bench.leading():
        bench.add(text(1, "a"))
        await bench.sees(lambda: bool(bench.journal.slots.get("m1")))
        bench.front.script = []
        await bench.shows(done(1))
        await bench.is_tidy()
    assert bench.front.shown(7) == ["a"]
    assert bench.buttons == [NONE]
    assert bench.front.requests.count("disarm") == 1


async def test_what_stands_in_the_list_is_done_by_whoever_leads_next(bench):
    gate = asyncio.Event()
    keep, bench.front.disarm = bench.front.disarm, None
    calls: list[int] = []

    async def held(channel_id: int, message_id: int):
        calls.append(message_id)
        await gate.wait()

    bench.front.disarm = held
    async with bench.leading():
        await bench.shows(text(1, "a"))
        await bench.shows(done(1))
        await bench.sees(lambda: bool(calls))
    assert list(bench.journal.left) == ["m1"]
    assert bench.buttons == [STOP]
    bench.front.disarm = keep
    async with bench.leading():
        await bench.is_tidy()
    assert bench.buttons == [NONE]


async def test_a_busy_bot_shows_none_and_puts_off_taking_it_away(bench):
    bench.budget.load = 0.7
    async with bench.leading():
        await bench.shows(text(1, "a"))
        assert bench.buttons == [NONE]
        await bench.shows(done(1))
    assert "disarm" not in bench.front.requests


async def test_under_pressure_the_edit_waits_and_in_the_end_it_is_left_to_the_click(bench):
    async with bench.leading():
        await bench.shows(text(1, "a"))
        bench.budget.load = 1.0
        began_s = bench.clock.now_s()
        await bench.shows(done(1))
        await bench.is_tidy()
    assert bench.budget.asked.count(Rank.TIDY) == len(WAITS_S)
    assert bench.clock.now_s() - began_s == sum(WAITS_S)
    assert bench.buttons == [STOP]
    assert "disarm" not in bench.front.requests


async def test_nothing_waits_for_a_button(bench):
    """The edit hangs; the next reply of the channel comes all the same."""

    async def forever(channel_id: int, message_id: int):
        await asyncio.Event().wait()

    bench.front.disarm = forever
    async with bench.leading():
        await bench.shows(text(1, "a"))
        await bench.shows(done(1))
        bench.source.add(of_discord(text(1, "next"), turn="m2"), of_discord(done(1), turn="m2"))
        await bench.sees(lambda: not bench.source.entries)
    assert bench.front.shown(7) == ["a", "next"]


@pytest.mark.parametrize(
    ("outcomes", "tries", "left"),
    [
        ([Refused(refusal=Refusal.GONE, status=404, code=10008)], 1, STOP),
        ([Unavailable(reason="timeout")], 2, NONE),
        ([Unavailable(reason="timeout")] * MAX_FAILURES, MAX_FAILURES, STOP),
        ([Unavailable(reason="rate_limited", is_limited=True)] * 5, 6, NONE),
    ],
    ids=["gone", "away once", "away", "too early"],
)
async def test_an_edit_that_fails_is_tried_a_few_times(bench, outcomes, tries, left):
    async with bench.leading():
        await bench.shows(text(1, "a"))
        bench.front.disarmings = list(outcomes)
        await bench.shows(done(1))
        await bench.is_tidy()
    assert bench.front.requests.count("disarm") == tries
    assert bench.buttons == [left]


async def test_a_bug_in_taking_it_away_ends_no_delivery(bench, caplog):
    async def broken(channel_id: int, message_id: int):
        raise KeyError("flags")

    bench.front.disarm = broken
    async with bench.leading():
        await bench.shows(text(1, "a"))
        await bench.shows(done(1))
        await bench.sees(lambda: "stop_buttons.crashed" in caplog.messages)
        bench.source.add(of_discord(text(1, "next"), turn="m2"), of_discord(done(1), turn="m2"))
        await bench.sees(lambda: not bench.source.entries)
    assert bench.front.shown(7) == ["a", "next"]
