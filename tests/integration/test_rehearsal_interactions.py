"""The fake Discord's interactions: its clocks, and what it refuses, as Discord does."""

from collections.abc import AsyncIterator

import httpx
import pytest

from ops.rehearsal.discord.asked import Asked
from ops.rehearsal.discord.control import control_routes, staged
from ops.rehearsal.discord.server import FakeDiscord
from tests.support.discord import WIDE

HIDDEN = {"flags": 64}
FORM = {"custom_id": "x", "title": "t", "components": [{"type": 10, "content": "read"}]}


class Desk:
    """A fake, one interaction after the other, and raw answers to it."""

    def __init__(self, discord: FakeDiscord, http: httpx.AsyncClient) -> None:
        self.discord = discord
        self.http = http
        self.stage = staged(discord)
        self.person = discord.world.users[self.stage.user_id]

    async def ask(self) -> Asked:
        channel = self.stage.channel_id
        return await self.discord.interactions.command(channel, self.person, "ask", {})

    async def answer(self, asked: Asked, kind: int, data: object = None) -> tuple[int, int]:
        """The status and Discord's own code."""
        path = f"/interactions/{asked.id}/{asked.token}/callback"
        return facts(await self.http.post(path, json={"type": kind, "data": data or {}}))

    async def edit(self, asked: Asked, text: str) -> tuple[int, int]:
        path = f"/webhooks/{self.discord.bot.id}/{asked.token}/messages/@original"
        return facts(await self.http.patch(path, json={"content": text}))


def facts(response: httpx.Response) -> tuple[int, int]:
    body = response.json() if response.content else {}
    return response.status_code, int(body.get("code", 0)) if response.is_error else 0


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    discord = FakeDiscord(rates=WIDE)
    desk = Desk(discord, httpx.AsyncClient())
    await discord.start(routes=control_routes(desk.stage))
    desk.http.base_url = httpx.URL(discord.rest_url)
    yield desk
    await desk.http.aclose()
    await discord.stop()


async def test_the_first_answer_has_three_seconds_and_comes_once(desk: Desk):
    asked = await desk.ask()
    assert await desk.answer(asked, 4, {"content": "yes"}) == (204, 0)
    assert await desk.answer(asked, 4, {"content": "again"}) == (400, 40060)
    late = await desk.ask()
    late.at_s -= 3.1
    assert await desk.answer(late, 5) == (404, 10062)
    late.token = "another"
    assert await desk.answer(late, 5) == (404, 10062)


async def test_a_token_lives_for_fifteen_minutes(desk: Desk):
    asked = await desk.ask()
    assert await desk.edit(asked, "too early") == (404, 10015)
    await desk.answer(asked, 5, HIDDEN)
    assert await desk.edit(asked, "in time") == (200, 0)
    assert asked.texts == ["in time"]
    asked.at_s -= 15 * 60
    assert await desk.edit(asked, "too late") == (401, 50027)


async def test_a_form_is_a_first_answer_and_none_to_a_form(desk: Desk):
    asked = await desk.ask()
    assert await desk.answer(asked, 9, FORM) == (204, 0)
    assert asked.form is not None
    channel = desk.stage.channel_id
    sent = await desk.discord.interactions.submit(channel, desk.person, "x", {"key": "v"})
    assert await desk.answer(sent, 9, FORM) == (400, 50035)
    for wrong in (
        {**FORM, "title": "t" * 46},
        {**FORM, "components": []},
        {**FORM, "custom_id": ""},
    ):
        assert await desk.answer(await desk.ask(), 9, wrong) == (400, 50035)


@pytest.mark.parametrize(
    ("kind", "data"),
    [(4, {"content": "x" * 2001}), (4, {"content": " "}), (7, {}), (1, {})],
    ids=["too long", "empty", "nothing to update", "no such type"],
)
async def test_what_discord_refuses(desk: Desk, kind: int, data: dict[str, str]):
    status, code = await desk.answer(await desk.ask(), kind, data)
    assert (status, code) in {(400, 50035), (400, 50006)}


async def test_a_rehearsal_can_give_commands_by_hand(desk: Desk):
    base = f"http://127.0.0.1:{desk.discord.port}/rehearsal/interact"
    assert (await desk.http.post(base, json={"commnad": "ask"})).status_code == 400
    assert (await desk.http.post(base, json={"press": "x", "message": 5})).status_code == 404
