"""What people take back, and places that go away."""

import pytest

from gateway.changes import Changes
from gateway.delivery.channels import BLOCK_S, MAX_BLOCKED, BlockedChannels
from gateway.front import Change, PlaceChanged, PlaceGone, PromptEdited, PromptsDeleted
from shared.errors import StoreUnavailable

NOW_S = 1_000.0


class Queue:
    """The port, with a memory of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.is_away = False

    async def amend(self, turn_id: str, text: str) -> bool:
        self._note("amend", (turn_id, text))
        return True

    async def withdraw(self, turn_id: str) -> None:
        self._note("withdraw", turn_id)

    async def block_channel(self, channel_id: int) -> None:
        self._note("block", channel_id)

    async def unblock_channel(self, channel_id: int) -> None:
        self._note("unblock", channel_id)

    def _note(self, word: str, what: object) -> None:
        if self.is_away:
            raise StoreUnavailable
        self.asked.append((word, what))


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (
            PromptEdited(channel_id=1, turn_id="m5", text="<@9> better"),
            [("amend", ("m5", "better"))],
        ),
        (PromptEdited(channel_id=1, turn_id="m5", text="<@9>"), []),
        (
            PromptsDeleted(channel_id=1, turn_ids=("m5", "m6")),
            [("withdraw", "m5"), ("withdraw", "m6")],
        ),
        (PlaceGone(guild_id=3, channel_id=1), [("block", 1)]),
        (PlaceGone(guild_id=3), []),
        (PlaceChanged(guild_id=3, channel_id=1), [("unblock", 1)]),
    ],
    ids=["edit", "edit to nothing", "deletions", "channel", "guild", "permissions"],
)
async def test_the_queue_hears_of_changes(change: Change, asked: list[tuple[str, object]]):
    queue = Queue()
    await Changes(queue, queue, BlockedChannels(), lambda: NOW_S).heed(change, 9)
    assert queue.asked == asked


async def test_a_store_that_is_away_costs_nothing_but_the_change():
    queue = Queue()
    queue.is_away = True
    change = PromptsDeleted(channel_id=1, turn_ids=("m5",))
    await Changes(queue, queue, BlockedChannels(), lambda: NOW_S).heed(change, 9)


async def test_where_nothing_can_be_said_nothing_is_until_something_changes():
    channels = BlockedChannels()
    changes = Changes(Queue(), Queue(), channels, lambda: NOW_S)
    await changes.heed(PlaceGone(guild_id=3, channel_id=1), 9)
    await changes.heed(PlaceGone(guild_id=4), 9)
    assert [channels.is_blocked(*where, NOW_S) for where in ((1, 3), (2, 3), (5, 4))] == [
        True,
        False,
        True,
    ]
    assert not channels.is_blocked(1, 3, NOW_S + BLOCK_S)
    await changes.heed(PlaceChanged(guild_id=3), 9)
    await changes.heed(PlaceChanged(guild_id=4), 9)
    assert not channels.is_blocked(1, 3, NOW_S)
    assert not channels.is_blocked(5, 4, NOW_S)


def test_the_memory_of_blocks_has_a_bound():
    channels = BlockedChannels()
    for channel_id in range(MAX_BLOCKED + 1):
        channels.block(channel_id, None, NOW_S)
    assert not channels.is_blocked(0, None, NOW_S)
    assert channels.is_blocked(MAX_BLOCKED, None, NOW_S)
