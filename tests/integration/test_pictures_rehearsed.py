"""A picture in each vendor's form, over a real socket: kept, and named by the last segment."""

import asyncio
import base64

import pytest

from ops.rehearsal.scenarios import Draw, load_scenarios
from ops.rehearsal.server import rehearsing
from shared.segments import SegmentKind
from shared.turns import Api, Target, TurnState
from tests.support.turn_ports import KeepingReporter, PlayedPools, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import Endpoint

DRAWN = next(b for b in load_scenarios()["picture"].beats if isinstance(b, Draw))
TEXT = "Here is what you asked for."


@pytest.mark.parametrize("api", [Api.OPENAI_CHAT, Api.OPENAI_RESPONSES, Api.GOOGLE])
async def test_a_picture_follows_the_text(api: Api):
    outbox = RememberingOutbox()
    async with rehearsing() as (url, _):
        http = HttpEdge(guard_of("", {"rehearsal": url}))
        pools = PlayedPools(Endpoint(base_url=url), "sk-key")
        request = turn(target=Target(api=api, provider="rehearsal", model="picture@0"))
        result = await runner(http, KeepingReporter(), keys=pools).run(
            request, outbox, asyncio.Event()
        )
        await http.close()
    assert result.outcome.state is TurnState.DONE
    said, picture = outbox.segments
    assert (said.text, picture.kind, picture.filename) == (TEXT, SegmentKind.FILE, "picture-1.png")
    assert picture.picture is not None
    assert outbox.pictures == {picture.picture: base64.b64decode(DRAWN.data)}


async def test_a_vendor_without_pictures_says_its_text():
    outbox = RememberingOutbox()
    async with rehearsing() as (url, _):
        http = HttpEdge(guard_of("", {"rehearsal": url}))
        pools = PlayedPools(Endpoint(base_url=url), "sk-key")
        request = turn(target=Target(api=Api.ANTHROPIC, provider="rehearsal", model="picture@0"))
        await runner(http, KeepingReporter(), keys=pools).run(request, outbox, asyncio.Event())
        await http.close()
    assert outbox.texts == [TEXT]
