"""What the builders build, the rehearsal provider accepts: over a real socket."""

import httpx
import pytest

from ops.rehearsal.server import rehearsing
from shared.messages import Message, Role
from shared.turns import Target, ToolSpec
from worker.providers.building import build_request
from worker.providers.endpoints import server_endpoint
from worker.providers.requests import ModelRequest


@pytest.mark.parametrize("suffix", ["", "/v1"])
async def test_a_built_chat_request_is_answered(suffix: str):
    request = ModelRequest(
        target=Target(provider="rehearsal", model="plain@0"),
        messages=[Message(role=Role.USER, content="hi")],
        system="Be kind.",
        tools=(ToolSpec(name="look_up"),),
    )
    async with rehearsing() as (url, _), httpx.AsyncClient() as client:
        built = build_request(
            request, server_endpoint("rehearsal", {"rehearsal": url + suffix}, {})
        )
        response = await client.request(
            built.method, built.url, headers=list(built.headers), content=built.body
        )
    assert response.status_code == 200, response.text
    assert response.text.endswith("data: [DONE]\n\n")
