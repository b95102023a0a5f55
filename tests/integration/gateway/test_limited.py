"""Where Discord wants a request to come later: the wait is the courier's, who then looks again."""

import time
from collections.abc import AsyncIterator

import pytest

from gateway.delivery.courier import Letter
from gateway.edges.clock import SystemClock
from gateway.edges.discord_connection import MAX_SILENT_WAIT_S
from gateway.front import OutgoingMessage, Sent, Unavailable
from gateway.steps import Rewrite
from ops.rehearsal.discord.faults import Fault
from ops.rehearsal.discord.limits import Rates
from shared.turns import Front, Route
from tests.support.discord_bench import DiscordBench, running_bench

SLOT_S = 1.3


@pytest.fixture
async def bench() -> AsyncIterator[DiscordBench]:
    async with running_bench(Rates(channel_limit=1, channel_period_s=SLOT_S)) as made:
        made.clock = SystemClock()  # type: ignore[assignment]  # hikari and Discord have no other
        yield made


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (Fault(method="PATCH", retry_after_s=SLOT_S),),
        (Fault(method="PATCH", retry_after_s=SLOT_S, scope="global"),),
        (Fault(method="PATCH", retry_after_s=SLOT_S, scope="shared"),),
    ],
    ids=["a bucket", "a refusal", "a refusal of all", "a refusal of a resource"],
)
async def test_a_step_is_confirmed_right_before_it_is_sent(bench: DiscordBench, faults):
    """A stalled gateway would otherwise put its old text over its successor's."""
    channel = bench.channel.id
    sent = await bench.front.send(OutgoingMessage(channel_id=channel, text="0", nonce="n"))
    assert isinstance(sent, Sent)
    route = Route(front=Front.DISCORD, channel_id=channel, user_id=5, guild_id=bench.guild.id)
    confirmed_s: list[float] = []

    async def confirm() -> None:
        confirmed_s.append(time.monotonic())

    courier, edits = bench.courier(), 2
    bench.fail(*faults)
    for number in range(1, edits + 1):
        step = Rewrite(slot=0, message_id=sent.message_id, text=str(number))
        letter = Letter(step=step, route=route, expires_s=bench.clock.now_s() + 60)
        assert isinstance(await courier.carry(letter, confirm), Sent)
        assert time.monotonic() - confirmed_s[-1] < MAX_SILENT_WAIT_S + 0.3
        assert bench.shown() == [str(number)]
    assert len(confirmed_s) > edits
    # What was asked too early costs nothing; of a refusal the budget hears by itself.
    assert len(bench.budget.asked) == edits
    assert [call.status for call in bench.calls("PATCH")].count(200) == edits


async def test_what_is_only_read_is_waited_for(bench: DiscordBench):
    bench.fail(Fault(method="GET", retry_after_s=SLOT_S))
    assert await bench.front.history(bench.channel.id, after=0, limit=5) == ()
    bench.fail(Fault(method="GET", retry_after_s=301.0))
    found = await bench.front.history(bench.channel.id, after=0, limit=5)
    assert isinstance(found, Unavailable)
    assert found.retry_after_s == pytest.approx(301.0, abs=1.0)
