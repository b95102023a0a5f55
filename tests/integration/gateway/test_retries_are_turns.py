"""Retry and Continue begin turns: lists of who may talk and bounds of one person hold for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.i18n import load_texts
from shared.segments import TurnDone
from shared.turns import StopReason
from tests.support.servers import RedisServer, running_server
from tests.support.town import FAILED, MANAGER, Town, town

TEXTS = load_texts()
CUT = TurnDone(count=-1, stop_reason=StopReason.LENGTH)
WAYS = {
    "retry button": ("retry", True, "ask.retried"),
    "retry command": ("retry", False, "ask.retried"),
    "continue button": ("continue", True, "ask.goes_on"),
    "continue command": ("continue", False, "ask.goes_on"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def says(key: str) -> list[str]:
    return [TEXTS.text(key, "en")]


async def ended(place: Town, what: str) -> str:
    """A turn of ann's that can be begun again."""
    turn_id = await place.turn(end=FAILED if what == "retry" else CUT)
    if what == "continue":
        await place.cut_off(turn_id)
    return turn_id


async def asked(place: Town, what: str, turn_id: str, *, by_button: bool) -> list[str]:
    if by_button:
        return (await place.press(f"{what}:{turn_id}")).texts
    return (await place.command(what)).texts


@pytest.mark.parametrize(("what", "by_button", "done"), WAYS.values(), ids=WAYS)
async def test_who_may_not_talk_here_begins_nothing(
    server, tmp_path: Path, what: str, by_button: bool, done: str
):
    async with town(server, tmp_path, file="[access]\nallow_users = [1]\n") as place:
        turn_id = await ended(place, what)
        assert await asked(place, what, turn_id, by_button=by_button) == says("notice.not_allowed")
        assert await place.queue.claim("w", 1) == []


@pytest.mark.parametrize(("what", "by_button", "done"), WAYS.values(), ids=WAYS)
async def test_one_person_begins_one_turn_in_a_while(
    server, tmp_path: Path, what: str, by_button: bool, done: str
):
    async with town(server, tmp_path, file="[limits]\nuser_cooldown_s = 600\n") as place:
        first, second = await ended(place, what), await ended(place, what)
        assert await asked(place, what, second, by_button=by_button) == says(done)
        # The same once more is no second turn, and another one is too soon.
        again = await place.press(f"{what}:{second}")
        assert again.texts == says(f"{done}_already")
        assert (await place.press(f"{what}:{first}")).texts == says("notice.too_soon")
        assert len(await place.queue.claim("w", 9)) == 1


async def test_a_person_with_enough_turns_waits_for_one_of_them(server, tmp_path: Path):
    async with town(server, tmp_path, file="[limits]\nuser_depth = 1\n") as place:
        first, second = await ended(place, "retry"), await ended(place, "retry")
        assert (await place.press(f"retry:{first}")).texts == says("ask.retried")
        assert (await place.press(f"retry:{second}")).texts == says("notice.too_many")
        # Whose bounds are meant: those of whoever presses.
        manager = await place.press(f"retry:{second}", place.bob, rights=MANAGER)
        assert manager.texts == says("ask.retried")
