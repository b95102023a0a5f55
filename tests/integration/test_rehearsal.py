"""The rehearsal provider over a real socket: each scenario as a client sees it."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from ops.rehearsal.app import MAX_REQUEST_BYTES, Provider
from ops.rehearsal.log import MAX_BODY_BYTES
from ops.rehearsal.server import rehearsing

KEY = {"Authorization": "Bearer sk-rehearsal"}


class Served:
    """A running server and a client that talks to it."""

    def __init__(self, url: str, provider: Provider, client: httpx.AsyncClient) -> None:
        self.url = url
        self.provider = provider
        self.client = client

    async def chat(self, model: str, prompt: str = "hi", **more: object) -> httpx.Response:
        """A streamed chat completion, read whole."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        return await self.client.post("/v1/chat/completions", json=body, headers=KEY)

    async def log(self) -> list[dict[str, object]]:
        """The server's log."""
        entries: list[dict[str, object]] = (await self.client.get("/rehearsal/log")).json()
        return entries


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with rehearsing() as (url, provider), httpx.AsyncClient(base_url=url) as client:
        yield Served(url, provider, client)


def chunks(response: httpx.Response) -> list[dict[str, object]]:
    lines = [line for line in response.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_a_plain_answer_ends_with_usage_and_done(served: Served):
    response = await served.chat("plain@0")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")
    last = chunks(response)[-1]
    assert last["choices"] == []
    assert last["usage"]


async def test_the_log_tells_when_each_character_was_written(served: Served):
    response = await served.chat("plain@0")
    (entry,) = await served.log()
    writes = entry["writes"]
    assert isinstance(writes, list)
    assert entry["outcome"] == "whole"
    assert writes[-1][2] == len(response.content)
    times = [write[0] for write in writes]
    assert times == sorted(times)
    text = "".join(
        choice["delta"].get("content") or ""
        for chunk in chunks(response)
        for choice in chunk["choices"]  # type: ignore[attr-defined]  # JSON of unknown shape
    )
    assert writes[-1][3] == len(text)


async def test_the_start_of_the_prompt_chooses_the_scenario(served: Served):
    await served.chat("plain@0", "Ann: echo: what a day")
    (entry,) = await served.log()
    assert entry["scenario"] == "echo"


async def test_a_cut_stream_breaks_the_connection(served: Served):
    with pytest.raises(httpx.RemoteProtocolError):
        await served.chat("cut@0")
    (entry,) = await served.log()
    assert entry["outcome"] == "cut"


async def test_a_clean_cut_ends_without_a_finish(served: Served):
    response = await served.chat("cut_clean@0")
    assert "[DONE]" not in response.text
    assert '"finish_reason":"' not in response.text


async def test_a_rate_limit_says_when_to_come_back(served: Served):
    response = await served.chat("rate_limit")
    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_model_that_is_no_scenario_is_unknown(served: Served):
    response = await served.chat("gpt-nothing")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


async def test_a_client_that_leaves_ends_the_playing(served: Served):
    body = {"model": "silent", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with served.client.stream(
        "POST", "/v1/chat/completions", json=body, headers=KEY
    ) as response:
        assert response.status_code == 200
    entry: dict[str, object] = {"outcome": "running"}
    while entry["outcome"] == "running":
        (entry,) = await served.log()
    assert entry["outcome"] == "left"


KEYS = {"/v1/chat/completions": KEY, "/v1/messages": {"x-api-key": "k"}}


@pytest.mark.parametrize("path", KEYS)
async def test_a_body_that_is_no_json_is_refused(served: Served, path: str):
    response = await served.client.post(path, content=b"{", headers=KEYS[path])
    assert response.status_code == 400
    assert "JSON" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", KEYS)
async def test_a_request_without_a_key_is_refused(served: Served, path: str):
    response = await served.client.post(path, json={})
    assert response.status_code == 401


async def test_an_invalid_key_is_echoed_as_some_vendors_do(served: Served):
    headers = {"Authorization": "Bearer sk-invalid-1"}
    response = await served.client.post("/v1/chat/completions", json={}, headers=headers)
    assert response.status_code == 401
    assert "sk-invalid-1" in response.json()["error"]["message"]
    assert "sk-invalid-1" not in (await served.client.get("/rehearsal/log")).text


async def test_a_request_over_the_limit_is_refused(served: Served):
    body = b" " * (MAX_REQUEST_BYTES + 1)
    response = await served.client.post("/v1/chat/completions", content=body, headers=KEY)
    assert response.status_code == 413


async def test_a_large_body_is_not_kept_in_the_log(served: Served):
    await served.chat("plain@0", "x" * (MAX_BODY_BYTES + 1))
    (entry,) = await served.log()
    assert entry["body"] is None


async def test_a_refused_request_is_in_the_log(served: Served):
    await served.chat("plain@0", temperature=7)
    (entry,) = await served.log()
    assert (entry["status"], entry["outcome"]) == (400, "refused")


async def test_the_log_can_be_emptied(served: Served):
    await served.chat("plain@0")
    assert (await served.client.delete("/rehearsal/log")).json() == []
    assert await served.log() == []


async def test_scenarios_are_listed_and_are_the_models(served: Served):
    about = (await served.client.get("/rehearsal/scenarios")).json()
    models = (await served.client.get("/v1/models")).json()["data"]
    assert about["plain"] == "A short plain answer."
    assert [model["id"] for model in models] == list(about)


async def test_tools_are_not_called_where_none_are_offered(served: Served):
    response = await served.chat("tool@0")
    assert "tool_calls" not in response.text


async def test_a_request_that_is_not_streamed_is_refused(served: Served):
    response = await served.chat("plain@0", stream=False, stream_options=None)
    assert response.status_code == 400
    assert "Only streamed answers" in response.json()["error"]["message"]
