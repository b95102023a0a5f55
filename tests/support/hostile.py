"""A provider that gives back what it was trusted with: the key, in every form and every place.

Comes in: chat requests over HTTP. Goes out: the failure that the request's model names. It speaks
just enough HTTP; each answer ends its connection.
"""

import asyncio
import base64
import contextlib
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "upper": lambda key: key.upper(),
    "reversed": lambda key: key[::-1],
    "base64": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "base64url": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "percent": lambda key: "".join(f"%{byte:02X}" for byte in key.encode()),
    "escaped": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "halves": lambda key: f"{key[:20]} {key[20:]}",
    "quoted": lambda key: quote(f"key={key}&a=b"),
}
"""What an endpoint may make of a key before it says it."""

SAID = "So far this is fine."
THOUGHT = "reasoning-canary-8c1e"
"""What the streams of this provider think, for a search in places where no thought belongs."""


def _answer(status: int, body: object, *, headers: str = "") -> bytes:
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(data)}\r\nconnection: close\r\n"
    return f"{head}{headers}\r\n".encode() + data


def _error(text: str, code: str = "bad_thing") -> dict[str, object]:
    return {"error": {"message": text, "code": code, "type": code}}


def _stream(*events: object) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return head + b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def _delta(key: str = "c1", **delta: str) -> dict[str, object]:
    return {"id": key, "model": key, "choices": [{"index": 0, "delta": delta}]}


def _begun(key: str = "c1") -> tuple[dict[str, object], ...]:
    return (_delta(key, reasoning_content=f"{THOUGHT} "), _delta(key, content=f"{SAID}\n\n"))


def _refusal(status: int, make: Callable[[str], str]) -> Callable[[str], bytes]:
    return lambda key: _answer(status, _error(f"key {make(key)} bad"))


ANSWERS: dict[str, Callable[[str], bytes]] = {
    **{f"401-{form}": _refusal(401, make) for form, make in FORMS.items()},
    **{f"400-{form}": _refusal(400, FORMS[form]) for form in ("plain", "base64", "hex")},
    **{f"500-{form}": _refusal(500, FORMS[form]) for form in ("plain", "reversed")},
    "code": lambda key: _answer(400, _error("no", code=key)),
    "page": lambda key: _answer(502, f"<html><a href='/?key={key}'>Bad gateway {key}</a></html>"),
    "bare": lambda key: _answer(418, key),
    "redirect": lambda key: _answer(307, "", headers=f"location: https://x.example/?key={key}\r\n"),
    "header": lambda key: _answer(
        429, _error("slow"), headers=f"retry-after: {key}\r\nx-request-id: {key}\r\n"
    ),
    "no-http": lambda key: f"{key}\r\n\r\n".encode(),
    "bad-header": lambda key: f"HTTP/1.1 200 OK\r\n{key}\r\n\r\n".encode(),
    "error-in-stream": lambda key: _stream(*_begun(), _error(f"lost {key}")),
    "names-in-stream": lambda key: _stream(*_begun(key), {"provider": key, **_error("no", key)}),
    "odd-event": lambda key: _stream(*_begun()) + f"data: {key}\n\nevent: {key}\n\n".encode(),
    "said": lambda key: _stream(*_begun(), _delta(content=f"Your key is {key}."), _error("no")),
    "cut": lambda _key: _stream(*_begun()),
}
"""By model, what comes for a key."""

QUOTES: dict[str, Callable[[str], bytes]] = {
    "prompt": lambda said: _answer(400, _error(f"cannot answer '{said}'")),
    "prompt-escaped": lambda said: _answer(422, _error(json.dumps({"input": f"{said} é"}))),
    "prompt-page": lambda said: _answer(500, f"<pre>{said}</pre>"),
    "prompt-in-stream": lambda said: _stream(*_begun(), _error(f"refused: {said}", "refused")),
}
"""By model, what comes for a prompt: errors that quote what people said."""


def _answer_to(request: dict[str, Any], key: str) -> bytes:
    model = request["model"]
    if model in ANSWERS:
        return ANSWERS[model](key)
    said = request["messages"][-1]["content"]
    return QUOTES[model](said if isinstance(said, str) else said[0]["text"])


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that keeps what it is sent, unpacked; gives its address and what came."""
    bodies: list[bytes] = []

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                bodies.append(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", bodies
    finally:
        server.close()


@asynccontextmanager
async def hostile_provider() -> AsyncIterator[str]:
    """The provider on a free loopback port; gives its URL."""
    visits: set[asyncio.Task[None] | None] = set()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.add(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        key = re.search(r"authorization: Bearer (\S+)", head, re.IGNORECASE)
        writer.write(_answer_to(json.loads(body), key[1] if key else "nokey"))
        writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for one in visits:
            if one is not None:
                await one
