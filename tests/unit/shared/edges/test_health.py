"""The small server of probes and metrics: what it answers, and whom it ignores."""

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from shared.edges.health import Answer, json_answer, serving, verdict
from shared.errors import ConfigError
from shared.setting_rules import address_of

LOCAL = "127.0.0.1:0"


async def well() -> Answer:
    return verdict({})


async def ill() -> Answer:
    return verdict({"loop": "stood still for 7 s"})


async def broken() -> Answer:
    raise RuntimeError("with a key: hunter2")


PATHS = {"/healthz": well, "/readyz": ill, "/broken": broken}


async def send(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        pytest.param("GET /healthz", 200, b"ok\n", id="well"),
        pytest.param("GET /healthz?verbose=1", 200, b"ok\n", id="a query is ignored"),
        pytest.param("HEAD /healthz", 200, b"", id="head"),
        pytest.param("GET /readyz", 503, b"loop: stood still for 7 s\n", id="ill"),
        pytest.param("GET /broken", 500, b"internal server error\n", id="says nothing of why"),
        pytest.param("GET /other", 404, b"not found\n", id="unknown"),
        pytest.param("POST /healthz", 405, b"method not allowed\n", id="only reading"),
    ],
)
async def test_a_request_gets_its_answer(request_line: str, status: int, body: bytes):
    async with serving(LOCAL, PATHS) as health:
        assert health is not None
        answer = await send(health.port, f"{request_line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, got = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert got == body


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request line"),
        pytest.param(b"GET /" + b"x" * 20_000 + b"\r\n\r\n", id="too long"),
    ],
)
async def test_what_is_no_request_ends_the_connection_and_nothing_else(request_bytes: bytes):
    unhandled: list[dict[str, Any]] = []
    # What reaches this handler is reported as a crash of ours.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, facts: unhandled.append(facts))
    async with serving(LOCAL, PATHS) as health:
        assert health is not None
        assert await send(health.port, request_bytes) == b""
        assert b"200 OK" in await send(health.port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert unhandled == []


async def test_without_an_address_nothing_is_served():
    async with serving(None, PATHS) as health:
        assert health is None


@pytest.mark.parametrize(
    ("listen", "expected"),
    [(":9464", ("0.0.0.0", 9464)), ("[::1]:80", ("::1", 80)), ("localhost:0", ("localhost", 0))],
)
def test_an_address_is_read(listen: str, expected: tuple[str, int]):
    assert address_of(listen) == expected


@pytest.mark.parametrize("listen", ["", "9464:", "host", ":99999"])
def test_what_is_no_address_is_refused(listen: str):
    with pytest.raises(ConfigError, match="HEALTH_LISTEN"):
        address_of(listen)


async def test_an_address_in_use_is_refused():
    async with serving(LOCAL, PATHS) as health:
        assert health is not None
        with pytest.raises(ConfigError, match="cannot listen"):
            async with serving(f"127.0.0.1:{health.port}", PATHS):
                pass


def test_a_value_is_answered_as_json():
    answer = json_answer({"backlog": 3}, HTTPStatus.OK)
    assert (answer.body, answer.kind) == (b'{"backlog":3}', "application/json")
