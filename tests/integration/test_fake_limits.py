"""The HTTP side of the fake Discord: what it answers whom, and whom it bans."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from ops.rehearsal.discord.doorman import BAN_S, INVALID_WINDOW_S
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord
from tests.support.discord import WIDE


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: object) -> None:
        self.status, self.headers, self.body = status, headers, body


class Bench:
    def __init__(self, fake: FakeDiscord, clock: Clock, http: aiohttp.ClientSession) -> None:
        self.fake, self.clock, self.http = fake, clock, http
        self.channel_id = fake.world.add_channel(fake.world.add_guild().id).id

    async def post(self, text: str = "hi", *, token: str = "", prefix: str = "/api/v10") -> Answer:
        headers = {
            "Authorization": f"Bot {token or self.fake.token}",
            "User-Agent": "DiscordBot (https://turnfleet.example, 1)",
        }
        url = f"http://127.0.0.1:{self.fake.port}{prefix}/channels/{self.channel_id}/messages"
        async with self.http.post(url, json={"content": text}, headers=headers) as response:
            is_json = response.content_type == "application/json"
            body = await response.json() if is_json else await response.text()
            return Answer(response.status, dict(response.headers), body)


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    clock = Clock()
    fake = FakeDiscord(rates=getattr(request, "param", WIDE), now_s=clock)
    await fake.start()
    async with aiohttp.ClientSession() as http:
        yield Bench(fake, clock, http)
    await fake.stop()


@pytest.mark.parametrize("prefix", ["/api/v10", "/api"])
async def test_both_prefixes_answer_json_without_a_charset_through_a_proxy(bench, prefix):
    answer = await bench.post(prefix=prefix)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Via"] == "1.1 google"


@pytest.mark.parametrize("bench", [Rates(channel_limit=2, channel_period_s=10.0)], indirect=True)
async def test_headers_of_a_bucket_agree_with_what_it_does(bench):
    first, second, third = [await bench.post() for _ in range(3)]
    left = [answer.headers["X-RateLimit-Remaining"] for answer in (first, second)]
    assert left == ["1", "0"]
    assert third.status == 429
    assert third.headers["X-RateLimit-Scope"] == "user"
    assert float(third.headers["Retry-After"]) == pytest.approx(5.0, abs=0.01)
    bench.clock.now_s += float(third.headers["Retry-After"])
    assert (await bench.post()).status == 200


@pytest.mark.parametrize("bench", [Rates(channel_limit=500, global_per_s=50)], indirect=True)
async def test_a_token_has_fifty_requests_a_second(bench):
    answers = [await bench.post() for _ in range(51)]
    assert [answer.status for answer in answers] == [200] * 50 + [429]
    assert answers[-1].headers["X-RateLimit-Global"] == "true"
    assert answers[-1].headers["X-RateLimit-Scope"] == "global"


@pytest.mark.parametrize("scope", ["user", "shared", "global"])
async def test_a_planned_429_has_its_scope_and_only_shared_ones_are_not_counted(bench, scope):
    bench.fake.faults.add(Fault(retry_after_s=1.5, scope=scope))
    answer = await bench.post()
    assert (answer.status, answer.headers["X-RateLimit-Scope"]) == (429, scope)
    assert bench.fake.doorman.refused() == (scope != "shared")


async def test_a_page_of_cloudflare_says_nothing_of_when_to_come_back(bench):
    bench.fake.faults.add(Fault(is_html=True))
    answer = await bench.post()
    assert (answer.status, "Retry-After" in answer.headers) == (429, False)
    assert "1015" in str(answer.body)


async def test_who_is_refused_too_often_is_banned_for_a_while(bench):
    bench.fake.doorman.limit = 5
    wrong = [await bench.post(token="wrong") for _ in range(3)]
    bench.fake.world.channels[bench.channel_id].denied.add("send")
    denied = [await bench.post() for _ in range(2)]
    assert [answer.status for answer in (*wrong, *denied)] == [401] * 3 + [403] * 2
    bench.fake.world.channels[bench.channel_id].denied.clear()
    banned = await bench.post()
    assert (banned.status, bench.fake.doorman.is_banned()) == (429, True)
    assert "Retry-After" not in banned.headers
    bench.clock.now_s += BAN_S + 1
    assert (await bench.post()).status == 200


async def test_refusals_are_forgotten_after_ten_minutes(bench):
    await bench.post(token="wrong")
    assert bench.fake.doorman.refused() == 1
    bench.clock.now_s += INVALID_WINDOW_S + 1
    assert bench.fake.doorman.refused() == 0


@pytest.mark.parametrize("fault", [{"status": 502}, {"drop": True}], ids=["502", "cut"])
async def test_an_answer_may_be_lost_after_the_message_was_posted(bench, fault):
    bench.fake.faults.add(Fault(stage=Stage.AFTER, **fault))
    try:
        assert (await bench.post("once")).status == 502
    except aiohttp.ClientConnectionError:
        assert "drop" in fault
    assert [one.content for one in bench.fake.replies(bench.channel_id)] == ["once"]


async def test_every_call_is_logged_with_its_times(bench):
    await bench.post("hi")
    (call,) = bench.fake.calls
    assert (call.method, call.status, call.body["content"]) == ("POST", 200, "hi")
    assert call.started_s <= call.ended_s == bench.clock.now_s
